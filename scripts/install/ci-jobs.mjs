// Jobs of CI services that install exec-server from npm and use it: the steps of action.yml, and those of the template for GitLab.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
/** Both services start bash so that a step ends at its first failure. */
const BASH = 'bash --noprofile --norc -e -o pipefail -c';
const TRY_IT = { command: 'exec-server run -- echo hello', expected: 'hello\n' };

/** The commands of a job with the action of this repository: start, one step, stop. `given` are inputs of the action. */
export function githubJob(given = {}) {
  const { inputs, runs } = parse(readFileSync(join(root, 'action.yml'), 'utf8'));
  const stepsOf = (command) =>
    runs.steps.filter((step) => step.if.startsWith(`inputs.command == '${command}'`)).map(stepCommand);
  const stepCommand = ({ run, env = {} }) => {
    const variables = Object.entries(env).map(([name, expression]) => {
      const [, input] = /^\$\{\{ inputs\.([a-z]+) \}\}$/.exec(expression);
      return `${name}=${quote(given[input] ?? inputs[input].default)} `;
    });
    return { command: `${variables.join('')}${BASH} ${quote(run)} && next_step`, expected: '' };
  };
  const runner = `\
export RUNNER_TEMP=$HOME/temp GITHUB_WORKSPACE=$HOME GITHUB_ENV=$HOME/env GITHUB_PATH=$HOME/path GITHUB_OUTPUT=$HOME/output
mkdir "$RUNNER_TEMP" && touch "$GITHUB_ENV" "$GITHUB_PATH"
next_step() {
  PATH=$(paste -sd: "$GITHUB_PATH"):$PATH
  set -a
  . "$GITHUB_ENV"
  set +a
}`;
  return job('action.yml', [
    { command: runner, expected: '' },
    ...stepsOf('start'),
    TRY_IT,
    {
      command: 'grep -x "$EXEC_SERVER_URL" "$(sed -n s/^log=//p "$GITHUB_OUTPUT")"',
      expected: 'ws://127.0.0.1:…\n',
    },
    ...stepsOf('stop'),
  ]);
}

/** The commands of a job that extends the template: before_script and script in one shell, after_script in another. */
export function gitlabJob() {
  const page = 'deploy/gitlab/exec-server.yml';
  const template = parse(readFileSync(join(root, page), 'utf8'))['.exec-server'];
  const variables = { ...template.variables, CI_JOB_ID: '1' };
  const runner = Object.entries(variables).map(([name, value]) => `export ${name}=${quote(value)}`);
  const script = [...template.before_script, TRY_IT.command].join('\n');
  return job(page, [
    { command: runner.join('\n'), expected: '' },
    { command: `${BASH} ${quote(script)}`, expected: `…${TRY_IT.expected}` },
    { command: `${BASH} ${quote(template.after_script.join('\n'))}`, expected: '' },
  ]);
}

function job(source, commands) {
  return commands.map((command) => ({ ...command, tries: 1, source }));
}

function quote(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
