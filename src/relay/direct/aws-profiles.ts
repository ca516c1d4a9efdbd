import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { OutboundOptions } from '../outbound/proxy.ts';
import { CredentialError } from '../registry-auth.ts';

/** The settings of a profile by name, in lower case. */
export type AwsProfile = Readonly<Record<string, string>>;

/**
 * Reads a profile of the shared AWS files. The credentials file overrides the config file. Null when neither has it.
 * https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html
 */
export function readProfile(name: string, env: OutboundOptions['env']): AwsProfile | null {
  const home = env.HOME || homedir();
  const config = readSections(env.AWS_CONFIG_FILE || join(home, '.aws', 'config'));
  const credentials = readSections(env.AWS_SHARED_CREDENTIALS_FILE || join(home, '.aws', 'credentials'));
  const found = [
    name === 'default' ? config.get('default') : undefined,
    config.get(`profile ${name}`),
    credentials.get(name),
  ];
  if (found.every((section) => section === undefined)) return null;
  return Object.assign({}, ...found);
}

/** The sections of a file by name; none when the file does not exist. */
function readSections(path: string): ReadonlyMap<string, Readonly<Record<string, string>>> {
  const sections = new Map<string, Record<string, string>>();
  let settings: Record<string, string> | null = null;
  for (const line of readText(path).split(/\r?\n/)) {
    const name = /^\[\s*([^\]]*?)\s*\]/.exec(line)?.[1]?.replace(/\s+/g, ' ');
    if (name !== undefined) {
      settings = sections.get(name) ?? {};
      sections.set(name, settings);
      continue;
    }
    // An indented line continues a nested setting such as `s3 =`, and no nested setting matters here.
    const [, key, value] = /^([^\s#;=][^=]*?)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (settings !== null && key !== undefined) {
      settings[key.toLowerCase()] = value!.replace(/\s[#;].*$/, '').trim();
    }
  }
  return sections;
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw new CredentialError(`cannot read the AWS file ${path}: ${(error as Error).message}`);
  }
}
