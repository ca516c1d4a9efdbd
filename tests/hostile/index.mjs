export { FLOODS } from './floods.mjs';
export { LoopWatch } from './loop-watch.mjs';
export {
  MAX_FLOOD_BLOCK_MS,
  MAX_REQUEST_BLOCK_MS,
  measureFlood,
  measureRow,
  shortestBlock,
} from './measure.mjs';
export { METHOD_REQUESTS, ROWS } from './requests.mjs';
export { Stage } from './stage.mjs';
