import { readFile } from 'node:fs/promises';

/** Why the local Postgres can't run. The message says what happened, where, and what to do. */
export class LocalPostgresError extends Error {
  override readonly name = 'LocalPostgresError';
}

/** The error's code (`ENOENT`, …) if it came from the operating system. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** The last lines of a text, indented to be appended to an error message. Empty for an empty text. */
export function tail(text: string, lines = 12): string {
  const last = text.trimEnd().split('\n').slice(-lines).join('\n    ').trim();
  return last === '' ? '' : `\n    ${last}`;
}

/** The last lines of a log file; empty if it can't be read. */
export async function tailOfFile(path: string, lines?: number): Promise<string> {
  return tail(await readFile(path, 'utf8').catch(() => ''), lines);
}
