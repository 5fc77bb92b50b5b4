import { createProgram, runProgram } from '../src/commands/program.ts';
import type { Finding, Level } from '../src/doctor/finding.ts';

export interface Diagnosis {
  readonly code: number;
  readonly findings: readonly Finding[];
  /** The levels of the checks with this prefix, in order. */
  levels(check: string): Level[];
  /** The detail and advice of the checks with this prefix. */
  said(check: string): string;
}

const NO_KEY = { WEIGHBRIDGE_DATA_DIR: '/nonexistent' };

/** Runs `weighbridge doctor --json` with only these settings; `now` sets its clock. */
export async function diagnose(
  env: Record<string, string>,
  { args = [], now = () => new Date() }: { args?: readonly string[]; now?: () => Date } = {},
): Promise<Diagnosis> {
  const out: string[] = [];
  const err: string[] = [];
  const cli = {
    env: { ...NO_KEY, ...env },
    version: '0.1.0',
    out: (text: string) => out.push(text),
    err: (text: string) => err.push(text),
    readFile: async (path: string): Promise<string> => {
      throw Object.assign(new Error(`no such file: ${path}`), { code: 'ENOENT' });
    },
    writeFile: async () => {},
    now,
  };
  const code = await runProgram(createProgram(cli), ['doctor', '--json', ...args], cli);
  if (out.length === 0) throw new Error(err.join('\n'));
  const findings: Finding[] = JSON.parse(out.join('\n'));
  const ofCheck = (check: string) => findings.filter((finding) => finding.check.startsWith(check));
  return {
    code,
    findings,
    levels: (check) => ofCheck(check).map(({ level }) => level),
    said: (check) =>
      ofCheck(check)
        .map(({ detail, advice }) => `${detail} ${advice ?? ''}`)
        .join('\n'),
  };
}

/** A clock that is ahead of the local one. */
export const ahead = (seconds: number) => () => new Date(Date.now() + seconds * 1_000);
