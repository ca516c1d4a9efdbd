import { startServer } from '/work/wt/loop/scripts/reference.mjs';
import { LoopWatch } from '/work/wt/loop/tests/hostile/loop-watch.mjs';
import { Fixture } from '/work/wt/loop/tests/hostile/fixture.mjs';
import { ROWS } from '/work/wt/loop/tests/hostile/requests.mjs';
import { measureRow } from '/work/wt/loop/tests/hostile/run-row.mjs';
const filter = process.argv[2] ? new RegExp(process.argv[2]) : /./;
const t0=performance.now();
const fixture = await Fixture.create();
console.log('fixture', Math.round(performance.now()-t0));
const server = await startServer(process.execPath, ['/work/wt/loop/dist/bin/exec-server.cjs','--audit-log',fixture.folder+'/audit','--log-level','debug','--metrics'], {env:{HOME:fixture.home, CODEX_HOME: undefined}});
let err='';server.child.stderr.on('data',d=>{err=(err+d).slice(-3000)});
server.exited.then(x=>console.log('server exited',x,err));
let watch = new LoopWatch(server);
for (const row of ROWS.filter(r=>filter.test(r.name))) {
  const t=performance.now();
  try {
    const m = await measureRow(row,{url:server.url,fixture,watch});
    const kinds={};for(const a of m.answers)kinds[a.kind]=(kinds[a.kind]??0)+1;
    console.log(`${m.blockMs>100?'XX':m.blockMs>50?' x':'  '} ${m.blockMs.toFixed(0).padStart(6)} ${m.stallMs.toFixed(0).padStart(6)} ${m.wallMs.toFixed(0).padStart(6)} ${(performance.now()-t).toFixed(0).padStart(6)}ms ${row.name} ${JSON.stringify(kinds)} ${m.answers.at(-1)?.text.slice(0,process.argv[3]?250:90)} ${m.refused.length?'REFUSED '+m.refused[0].text.slice(0,200):''}`);
  } catch (e) { console.log('!!', row.name, e.message.slice(0,300)); }
}
await watch.close(); await server.stop(); await fixture.remove();
