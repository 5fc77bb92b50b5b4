import { expect, it } from 'vitest';
import { compareHttp } from './http.ts';
import { compareForms } from './requestForms.ts';
import { compareScanners, type Difference } from './scanners.ts';

const CASES = 100_000;
/** They are alike, if there are many. */
const MAX_SHOWN = 20;

it('scanners, forms of requests and the HTTP client agree with the reference, round after round', async () => {
  const [seed, minutes] = [Number(process.env.FAULTS_SEED), Number(process.env.FAULTS_MINUTES)];
  const endsAt = performance.now() + minutes * 60_000;
  for (let first = seed; first === seed || performance.now() < endsAt; first += CASES) {
    const seeds = `seeds ${first} to ${first + CASES - 1}`;
    const wrong: Difference[] = [];
    for (let at = 0; at < CASES; at++) wrong.push(...(await compareScanners(first + at)));
    log(`${seeds}: ${CASES} requests and answers scanned, ${wrong.length} differences`);
    const { differences, ...figures } = await compareForms(CASES, first);
    log(`${seeds}: in two forms ${JSON.stringify(figures)}, ${differences.length} differences`);
    const { differences: misread, ...read } = await compareHttp(CASES, first);
    log(`${seeds}: answers of servers ${JSON.stringify(read)}, ${misread.length} differences`);
    const shown = [...wrong, ...differences, ...misread].slice(0, MAX_SHOWN);
    for (const one of shown) log(`WRONG ${JSON.stringify(one, asText)}`);
    expect(shown).toEqual([]);
  }
});

function log(line: string): void {
  process.stdout.write(`${line}\n`);
}

const asText = (_name: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value);
