// Loaded by the first upload or download.

export { download } from './download.ts';
export { localPath } from './local-files.ts';
export { Transfer } from './transfer.ts';
export { upload } from './upload.ts';
