/** Gives bytes to the browser as a download. */
export function saveInBrowser(parts: readonly Uint8Array<ArrayBuffer>[], name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([...parts], { type: 'application/octet-stream' }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
