import { loadCases } from './cases.mjs';
import { play } from './play.ts';
import { startOurs } from './servers.mjs';

play('exec-server', startOurs, loadCases());
