import { seededRandom } from '@weighbridge/domain';
import { TEAMS } from '../../src/demo/company.ts';
import { DAYS, generateMonth } from '../../src/demo/month.ts';
import { readListPrices } from '../../src/demo/prices.ts';
import { costOfAttempt, type MonthDeps, writeMonth } from '../../src/demo/writeMonth.ts';
import { manage } from '../mainJob.ts';
import type { Cluster } from './cluster.ts';

const DAY_MS = 86_400_000;
/** Its last day ended before the days that stay in Postgres. */
const ENDED_DAYS_AGO = 40;

/** The settings of apps with an archive in this folder. */
export const archivedTo = (folder: string) => ({
  LEDGER_ARCHIVE_URL: `file://${folder}/archive`,
  LEDGER_ARCHIVE_WORK_DIR: `${folder}/work`,
  LEDGER_HOT_DAYS: '35',
});

export interface OldMonth {
  readonly attempts: number;
  /** How many of its rows are not archived yet, and what a report has that differs from what was written. */
  check(): Promise<{ readonly hotRows: number; readonly violations: readonly string[] }>;
}

/** Writes a month of usage, each day of which is old enough to be archived. No worker may run yet. */
export async function writeOldMonth(cluster: Cluster, seed: number): Promise<OldMonth> {
  const { db } = cluster;
  const until = new Date(Date.now() - ENDED_DAYS_AGO * DAY_MS);
  const month = generateMonth(seed, until);
  const prices = await readListPrices(db, [...new Set(month.attempts.map(({ model }) => model))]);
  await writeMonth({ db, company: companyOf(seed), prices, seed }, { ...month, refused: [] });
  const written = new Map<string, bigint>();
  const sent = month.attempts.filter(({ outcome }) => outcome !== 'cached').length;
  for (const attempt of month.attempts)
    written.set(attempt.model, (written.get(attempt.model) ?? 0n) + costOfAttempt(attempt, prices));
  const from = new Date(until.getTime() - (DAYS + 1) * DAY_MS).toISOString();
  const range = `from=${from}&to=${until.toISOString()}`;
  return {
    attempts: month.attempts.length,
    async check() {
      const { body } = await manage(cluster, 'GET', `/api/v1/spend?${range}&group_by=model`);
      const rows = (body.data ?? []) as {
        group: { model: string };
        cost_nano_usd: string;
        attempts: number;
      }[];
      const violations: string[] = [];
      const reported = new Map(rows.map(({ group, cost_nano_usd }) => [group.model, BigInt(cost_nano_usd)]));
      for (const model of new Set([...written.keys(), ...reported.keys()])) {
        const [wanted, got] = [written.get(model) ?? 0n, reported.get(model) ?? 0n];
        if (wanted !== got)
          violations.push(`old ${model}: ${got} nano-USD are reported, ${wanted} were written`);
      }
      const attempts = rows.reduce((sum, row) => sum + row.attempts, 0);
      if (attempts !== sent)
        violations.push(
          `${attempts} attempts at vendors in the old month are reported, ${sent} were written`,
        );
      if (body.complete !== true)
        violations.push(`the report of the old month is not complete: ${JSON.stringify(body)}`);
      const { n } = await db
        .selectFrom('usage_events')
        .select((of) => of.fn.countAll<bigint>().as('n'))
        .where('admitted_at', '<', until)
        .executeTakeFirstOrThrow();
      return { hotRows: Number(n), violations };
    },
  };
}

/** Ids of a company that was deleted since. */
function companyOf(seed: number): MonthDeps['company'] {
  const random = seededRandom(seed);
  const id = (kind: string) => `${kind}_${random().toString(36).slice(2)}`;
  const applications = TEAMS.flatMap(({ people }) =>
    people.flatMap((person) => person.applications.map((application) => `${person.id}/${application}`)),
  );
  return {
    companyPolicyId: id('pol'),
    teams: new Map(TEAMS.map(({ name }) => [name, { id: id('team'), poolId: id('pol'), eachId: id('pol') }])),
    keyIds: new Map(applications.map((application) => [application, id('key')])),
    connectorIds: { openai: id('con'), anthropic: id('con'), gemini: id('con') },
  };
}
