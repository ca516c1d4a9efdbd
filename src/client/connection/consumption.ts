/**
 * Reports what a reader has consumed, so that the server extends its flow-control window. Reports when half of the window is used: the
 * other half covers the round trip.
 */
export class ConsumptionReports {
  readonly #windowBytes: number;
  readonly #report: (bytes: number) => void;
  #unreported = 0;

  constructor(windowBytes: number, report: (bytes: number) => void) {
    this.#windowBytes = windowBytes;
    this.#report = report;
  }

  consumed(bytes: number): void {
    this.#unreported += bytes;
    if (this.#unreported < this.#windowBytes / 2) return;
    this.#report(this.#unreported);
    this.#unreported = 0;
  }
}
