import { COMPANY, type DemoProvider, PROVIDERS, TEAMS } from './company.ts';
import type { Comparison } from './compareBills.ts';
import type { CreatedCompany } from './createCompany.ts';
import type { LoadResult } from './load.ts';
import { DAYS, type Month } from './month.ts';

const NANO_PER_MICRO = 1_000n;

/** Dollars with six decimals, which show a micro-dollar. */
export function usd(nano: bigint): string {
  const micro = (nano + NANO_PER_MICRO / 2n) / NANO_PER_MICRO;
  const text = String(micro).padStart(7, '0');
  return `$${text.slice(0, -6)}.${text.slice(-6)}`;
}

const count = (number: number) => number.toLocaleString('en-US');

export function vendorLines(urls: Readonly<Record<DemoProvider, string>>): string {
  const lines = PROVIDERS.map((provider) => `the mock of ${provider} at ${new URL(urls[provider]).origin}`);
  return `Vendors: ${lines.join(', ')}\n`;
}

export function greeting(facts: {
  readonly seed: number;
  readonly dataDir: string;
  readonly isKept: boolean;
}): string {
  return `Weighbridge demo: a month of ${COMPANY}, a company of three teams; then three proxies under load.
The vendors are mocks on this machine: no request leaves it, nothing costs money, and your vendor keys are not read.
Data: ${facts.dataDir} (${facts.isKept ? 'kept' : 'removed at the end; set WEIGHBRIDGE_DATA_DIR to keep it'})`;
}

export function monthLines({
  month,
  spent,
  seconds,
}: {
  readonly month: Month;
  readonly spent: bigint;
  readonly seconds: number;
}): string {
  const { attempts, refused } = month;
  const failed = attempts.filter(({ outcome }) => outcome === 'failed').length;
  const cached = attempts.filter(({ outcome }) => outcome === 'cached').length;
  return `
[1/4] ${DAYS} days of ${COMPANY}, written by the ledger's own writer in ${seconds.toFixed(1)} s
      teams: ${TEAMS.map(({ name, percentUsed }) => `${name} (${percentUsed} % of its budget used)`).join(', ')}
      ${count(attempts.length - failed)} requests for ${usd(spent)}: ${count(failed)} failed attempts that went on to another vendor,
      ${count(cached)} responses from the cache, ${count(refused.length)} requests refused because the budget of support is used up`;
}

export function loadLines({ sent, succeeded, refused, broken, others }: LoadResult): string {
  const rest = [...others].map(([code, number]) => `${count(number)} × ${code}`).join(', ');
  return `      ${count(sent)} requests: ${count(succeeded)} responses, ${count(broken)} broken connections, ${count(refused)} refused by the budget${rest ? `, ${rest}` : ''}`;
}

/** What is compared, and whether the ledger has exactly what the vendors bill. */
export function billLines({
  comparison,
  totals,
  limit,
}: {
  readonly comparison: Comparison;
  readonly totals: { readonly ledger: bigint; readonly counter: bigint };
  readonly limit: bigint;
}): { readonly text: string; readonly isEqual: boolean } {
  const { metered, estimated, rows, twice, missing, differing } = comparison;
  const billed = metered.billed + estimated.billed;
  // Corrections are in whole micro-dollars.
  const isClose = abs(totals.ledger - billed) < NANO_PER_MICRO;
  const isEqual =
    twice === 0 &&
    missing === 0 &&
    differing.length === 0 &&
    metered.ledger === metered.billed &&
    totals.ledger === totals.counter &&
    isClose &&
    totals.ledger <= limit;
  const line = (label: string, requests: number, ledger: bigint, bill: bigint, note: string) =>
    `      ${label.padEnd(34)}${count(requests).padStart(8)}  ${usd(ledger).padStart(11)}  ${usd(bill).padStart(11)}  ${note}`;
  const text = [
    `      ${''.padEnd(34)}${'requests'.padStart(8)}  ${'ledger'.padStart(11)}  ${'bill'.padStart(11)}`,
    line(
      'metered',
      metered.requests,
      metered.ledger,
      metered.billed,
      metered.ledger === metered.billed ? 'equal' : 'DIFFERENT',
    ),
    line(
      'in flight when it was killed',
      estimated.requests,
      estimated.ledger,
      estimated.billed,
      'usage unknown: marked as estimated, at their reservation',
    ),
    line('in all, with the corrections', rows, totals.ledger, billed, isEqual ? 'equal' : 'DIFFERENT'),
    `      charged twice: ${twice}; billed and not in the ledger: ${missing}; the counter has ${usd(totals.counter)} of ${usd(limit)}, never more`,
    isEqual ? "      ledger = vendors' bill" : "      ledger ≠ vendors' bill",
  ].join('\n');
  return { text, isEqual };
}

function abs(value: bigint): bigint {
  return value < 0n ? -value : value;
}

export function farewell(facts: {
  readonly url: string;
  readonly signInUrl: string | undefined;
  readonly operatorKey: string;
  readonly dataDir: string;
  readonly company: CreatedCompany;
  readonly exits: boolean;
  readonly isKept: boolean;
}): string {
  const { url, signInUrl, operatorKey, dataDir, company, exits, isKept } = facts;
  if (exits) return `\nThe demo has ended${isKept ? `; its data stays in ${dataDir}` : ''}.`;
  return `
Look around. The console: ${url}/console/
  sign in once:      ${signInUrl ?? `${url}/console/`}
  or with a key:     ${operatorKey}   (operator: sees all)
                     ${company.leadKey}   (a lead: her team)
                     ${company.memberKey}   (a member: its own)

Try next, in another terminal:
  export WEIGHBRIDGE_DATA_DIR=${dataDir}
  alias weighbridge="node ${process.argv[1]}"
  weighbridge summary
  weighbridge spend --by team_id,model
  weighbridge requests list --refused
  weighbridge spend --focus > focus.csv     # yesterday, as a FOCUS dataset
  curl -s ${url}/v1/chat/completions -H "Authorization: Bearer ${company.leadKey}" -H "Content-Type: application/json" \\
    -d '{"model":"house-model","messages":[{"role":"user","content":"Hello from the demo"}]}'

Press Ctrl-C to stop: everything that the demo started ends${isKept ? '' : ', and its folder is removed'}.
`;
}
