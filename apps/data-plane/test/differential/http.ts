import { isDeepStrictEqual } from 'node:util';
import { fuzzAnswer } from './httpAnswers.ts';
import { type Reading, readByParser, readByUndici } from './httpReaders.ts';
import { randomOf } from './random.ts';
import type { Difference } from './scanners.ts';

/** What this service refuses and llhttp takes, by the beginning of the reason. All of it is odd; no vendor needs it. */
const STRICTER = [
  // Only 1.0 and 1.1 are known; llhttp also skips line ends before the status line.
  'its status line has no version 1.0 or 1.1',
  'its first line is no status line',
  'its status is not valid',
  'its status line has a character that is not allowed',
  // llhttp takes some CR without LF.
  'a line of its head does not end by CR and LF',
  // llhttp reads up to the end of the connection, or takes "gzip, chunked" as chunked.
  'its transfer encoding is not "chunked"',
  'HTTP/1.0 has no transfer encodings',
  'it has a body with the status',
  // The whole head counts, with its line ends.
  'its head is too long',
  'a chunk is too long',
  'an extension of a chunk is not valid',
  'its length is not valid',
] as const;

const AT_ONCE = 32;

export interface HttpFigures {
  readonly answers: number;
  readonly refused: number;
  /** Refused here alone, by the beginning of the reason. */
  readonly stricter: Readonly<Record<string, number>>;
  readonly differences: readonly Difference[];
}

/** Reads generated answers by the HTTP client of this service and by undici, and compares what they make of them. */
export async function compareHttp(cases: number, seed: number): Promise<HttpFigures> {
  const differences: Difference[] = [];
  const stricter: Record<string, number> = {};
  let answers = 0;
  let refused = 0;
  let next = seed;
  const compare = async (at: number) => {
    const fuzzed = fuzzAnswer(randomOf(at));
    const mine = readByParser(fuzzed);
    const other = await readByUndici(fuzzed);
    if (mine.answer) answers++;
    else refused++;
    const reason = STRICTER.find((start) => mine.refusal?.includes(start));
    if (!mine.answer && other.answer && reason) stricter[reason] = (stricter[reason] ?? 0) + 1;
    else if (!isAlike(mine, other)) {
      const input = fuzzed.bytes.toString('latin1').slice(0, 2_000);
      differences.push({ what: 'an answer', seed: at, input, more: { mine, other } });
    }
  };
  const worker = async () => {
    for (let at = next++; at < seed + cases; at = next++) await compare(at);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return { answers, refused, stricter, differences };
}

function isAlike(mine: Reading, other: Reading): boolean {
  if (!mine.answer || !other.answer) return mine.answer === other.answer;
  const { status, headers, body } = mine.answer;
  return (
    status === other.answer.status &&
    body === other.answer.body &&
    isDeepStrictEqual(trimmed(headers), trimmed(other.answer.headers))
  );
}

/** llhttp leaves the blanks after a value. */
function trimmed(headers: object): [string, unknown][] {
  return Object.entries(headers).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.map((one) => String(one).trim()) : String(value).trim(),
  ]);
}
