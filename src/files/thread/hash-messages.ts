/** Messages to the thread that hashes. Each hash has an id, and at most one unanswered message. `drop` is not answered. */
export type HashRequest =
  | {
      readonly id: number;
      readonly kind: 'update';
      /** Comes back with the answer, for the next piece. */
      readonly buffer: ArrayBuffer;
      readonly length: number;
    }
  | { readonly id: number; readonly kind: 'digest' }
  | { readonly id: number; readonly kind: 'drop' };

export type HashAnswer =
  | { readonly id: number; readonly kind: 'updated'; readonly buffer: ArrayBuffer }
  | { readonly id: number; readonly kind: 'digest'; readonly sha256: string };
