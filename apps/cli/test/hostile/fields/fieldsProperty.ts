import { type FieldCase, unreadCase, VALUE_NAMES, type ValueName } from './fieldCases.ts';
import { type FieldsProduct, MEMORY_BUDGET_BYTES, type Measured } from './fieldsProduct.ts';

/** Of processor time, for a request. */
const MOST_MS = 1_000;
/** Beyond taking the body in, reading it and passing it on. */
const MOST_BEYOND_MS = 150;
/** One reading more than an unread field takes: values in a table may be looked at, or counted to be translated. */
const READINGS = 2;
/** Others wait for no longer. */
const MOST_HELD_MS = 500;
const TIMES_BODY = 1.5;
/** What a process grows by when it begins to work: compiled code, pools, a heap that was not collected. */
const SLACK_BYTES = 96 * 2 ** 20;
/** Something else may run in the process: what a case takes is the least of so many times. */
const TRIES = 4;

export interface FieldsResult {
  readonly cases: number;
  readonly refused: number;
  readonly worstCpu: string;
  readonly worstHeld: string;
  readonly worstGrowth: string;
  readonly wrong: readonly string[];
}

/** Sends each case, and says which took more than reading its body may. */
export async function tryFields(
  product: FieldsProduct,
  cases: readonly FieldCase[],
  onWrong: (text: string) => void = () => {},
): Promise<FieldsResult> {
  const reading = new Map<ValueName, number>();
  for (const value of VALUE_NAMES) {
    const times = [];
    for (let at = 0; at < TRIES; at++) times.push((await product.send(unreadCase(value))).cpuMs);
    reading.set(value, Math.min(...times));
  }
  const wrong: string[] = [];
  let refused = 0;
  let cpu = { ms: 0, title: '' };
  let held = { ms: 0, title: '' };
  let growth = { bytes: 0, title: '' };
  for (const one of cases) {
    const readingMs = reading.get(one.value) ?? 0;
    let measured: Measured | undefined;
    let problem: string | undefined;
    try {
      for (let at = 0; at < TRIES; at++) {
        measured = await product.send(one);
        problem = problemOf(one, measured, readingMs);
        if (problem === undefined) break;
      }
    } catch (error) {
      problem = `the process is gone: ${String(error)}`;
    }
    if (problem !== undefined) {
      wrong.push(`${one.title}: ${problem}`);
      onWrong(`${one.title}: ${problem}`);
    }
    if (!measured) break;
    if (measured.code === 'field_out_of_bounds') refused++;
    if (measured.cpuMs > cpu.ms) cpu = { ms: measured.cpuMs, title: one.title };
    if (measured.heldMs > held.ms) held = { ms: measured.heldMs, title: one.title };
    if (measured.growthBytes > growth.bytes) growth = { bytes: measured.growthBytes, title: one.title };
  }
  return {
    cases: cases.length,
    refused,
    worstCpu: `${Math.round(cpu.ms)} ms (${cpu.title})`,
    worstHeld: `${Math.round(held.ms)} ms (${held.title})`,
    worstGrowth: `${Math.round(growth.bytes / 2 ** 20)} MiB (${growth.title})`,
    wrong,
  };
}

function problemOf(one: FieldCase, measured: Measured, readingMs: number): string | undefined {
  const { status, code, cpuMs, heldMs, growthBytes, bodyBytes } = measured;
  if (status === 500) return `${status} ${code}`;
  // What is translated is taken from the memory budget first.
  const most = TIMES_BODY * (one.isTranslated ? MEMORY_BUDGET_BYTES : bodyBytes) + SLACK_BYTES;
  if (growthBytes > most) return `grew by ${Math.round(growthBytes / 2 ** 20)} MiB`;
  const mostMs = Math.min(MOST_MS, READINGS * readingMs + MOST_BEYOND_MS);
  if (cpuMs > mostMs) return `took ${Math.round(cpuMs)} ms, ${Math.round(readingMs)} of them to read it`;
  if (heldMs > MOST_HELD_MS) return `held others up for ${Math.round(heldMs)} ms`;
  return undefined;
}

export function inWords({ cases, refused, worstCpu, worstHeld, worstGrowth, wrong }: FieldsResult): string {
  return `${cases} cases, ${refused} refused, ${wrong.length} wrong; most processor time ${worstCpu}; others waited ${worstHeld}; most memory ${worstGrowth}`;
}
