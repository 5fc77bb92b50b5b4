import { createHash } from 'node:crypto';
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { newProducerKey, Outcome, PriceSource, UsageEventSchema } from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import { seededRandom, windowAt } from '@weighbridge/domain';
import { addEvidence } from '@weighbridge/evidence';
import { decodeBatch, readIdRange, recordRefusals, recordUsage, touchKeys } from '@weighbridge/ledger';
import { signBatch } from '@weighbridge/usage';
import { sql } from 'kysely';
import { providerOf } from './company.ts';
import type { CreatedCompany } from './createCompany.ts';
import { requestIdOf, uuidAt } from './ids.ts';
import { DAYS, type Month, type MonthAttempt } from './month.ts';
import { costAt, type ListPrice } from './prices.ts';

const EVENTS_PER_BATCH = 250;
const EPOCH = '00000000-0000-7000-8000-000000000001';
const FAILED_STATUS = 529;

export interface MonthDeps {
  readonly db: Database;
  readonly company: Pick<CreatedCompany, 'companyPolicyId' | 'teams' | 'keyIds' | 'connectorIds'>;
  readonly prices: ReadonlyMap<string, ListPrice>;
  readonly seed: number;
}

/** Costs in nano-USD, by attempt. */
export function costOfAttempt(
  attempt: Pick<MonthAttempt, 'model' | 'input' | 'cached' | 'output'>,
  prices: ReadonlyMap<string, ListPrice>,
): bigint {
  const price = prices.get(attempt.model);
  if (!price) throw new Error(`no price for ${attempt.model}`);
  return costAt(price, attempt);
}

/** Writes a month by the ledger's own writer: each event is encoded, signed, decoded and checked as a proxy's is. */
export async function writeMonth(deps: MonthDeps, { attempts, refused }: Month): Promise<void> {
  const { db, seed } = deps;
  await createPastPartitions(db, attempts[0]?.at ?? new Date());
  const ids = await readIdRange(db);
  const random = seededRandom(seed + 1);
  const { key } = newProducerKey();
  const requestIds = new Map<number, string>();
  for (let from = 0; from < attempts.length; from += EVENTS_PER_BATCH) {
    const part = attempts.slice(from, from + EVENTS_PER_BATCH);
    const events = part.map((attempt) => {
      const eventId = uuidAt(attempt.at, random);
      const requestId = requestIds.get(attempt.request) ?? requestIdOf(eventId);
      requestIds.set(attempt.request, requestId);
      return toBinary(UsageEventSchema, create(UsageEventSchema, eventOf(deps, attempt, eventId, requestId)));
    });
    const batch = { producerId: key.producerId, epoch: EPOCH, shard: 0, firstN: BigInt(from + 1), events };
    const decoded = decodeBatch(signBatch(batch, key), ids);
    const [bad] = decoded.refused;
    if (bad) throw new Error(`the ledger refuses an event of the month: ${bad.reason}`);
    const at = part.at(-1)?.at ?? new Date();
    // Nothing is received: no proxy sent this, and none is to be missed later.
    await recordUsage(db, { ...decoded, received: [] }, at, { lastStep: addEvidence });
    await touchKeys(db, decoded.events, at);
  }
  await writeRefusals(deps, refused, key.producerId, random);
}

/** The ledger's first partition is that of the month in which it was created. */
async function createPastPartitions(db: Database, first: Date): Promise<void> {
  const from = new Date(Date.UTC(first.getUTCFullYear(), first.getUTCMonth(), 1));
  for (let days = 0; days <= DAYS + 1; days += 28) {
    const at = new Date(from.getTime() + days * 86_400_000);
    if (at <= new Date()) await sql`SELECT create_usage_partition(${at}::timestamptz)`.execute(db);
  }
}

function eventOf(
  { company, prices }: MonthDeps,
  attempt: MonthAttempt,
  eventId: string,
  requestId: string,
): MessageInitShape<typeof UsageEventSchema> {
  const { at, team, person, model, outcome, input, cached, output } = attempt;
  const created = company.teams.get(team.name);
  const price = prices.get(model);
  if (!created || !price) throw new Error(`${team.name} or ${model} was not created`);
  const windowStartMs = BigInt(windowAt('month', 'UTC', at).start.getTime());
  const bucket = (policyId: string, subject: string) => ({
    policyId,
    subject,
    counterVersion: 1,
    windowStartMs,
  });
  const failed = outcome === 'failed';
  return {
    eventId,
    requestId,
    keyId: company.keyIds.get(`${person.id}/${attempt.application}`) ?? '',
    principalId: person.id,
    teamId: created.id,
    buckets: [
      bucket(created.eachId, `principal:${person.id}`),
      bucket(created.poolId, 'policy'),
      bucket(company.companyPolicyId, 'policy'),
    ],
    modelRequested: model,
    model,
    connectorId: company.connectorIds[providerOf(model)],
    usage: { input: input - cached, cacheRead: cached, output },
    costNanoUsd: costOfAttempt(attempt, prices),
    priceVersion: price.version,
    priceSource: PriceSource.CATALOG,
    outcome: failed ? Outcome.UPSTREAM_ERROR : Outcome.SUCCESS,
    httpStatus: failed ? FAILED_STATUS : 200,
    cacheHit: outcome === 'cached',
    streamed: attempt.streamed,
    admittedAtMs: BigInt(at.getTime()),
    settledAtMs: BigInt(Math.min(at.getTime() + attempt.durationMs, Date.now())),
    firstByteUs: attempt.firstByteMs * 1_000,
    durationUs: attempt.durationMs * 1_000,
    attempt: attempt.attempt,
    modelAttempt: 1,
    responseId: failed ? '' : `resp_${eventId.replaceAll('-', '')}`,
    attribution: {
      user: person.id.replace(/@.*/, ''),
      team: team.name,
      project: attempt.project,
      env: attempt.env,
      labels: { feature: attempt.feature },
      sessionId: attempt.session,
      sessionSha256: sha256(attempt.session),
      workloadType: team.workloadType,
      workloadTypeSha256: sha256(team.workloadType),
    },
  };
}

async function writeRefusals(
  { db, company }: MonthDeps,
  refused: Month['refused'],
  producerId: string,
  random: () => number,
): Promise<void> {
  const limits = await readLimits(
    db,
    refused.flatMap(({ team }) => company.teams.get(team.name)?.poolId ?? []),
  );
  const rows = refused.map(({ at, team, person, application, model, project }) => {
    const created = company.teams.get(team.name);
    const pool = limits.get(created?.poolId ?? '');
    const { start, end } = windowAt('month', 'UTC', at);
    const id = uuidAt(at, random);
    const wanted = 4_000_000n + BigInt(Math.floor(random() * 30_000_000));
    return {
      id,
      request_id: requestIdOf(id),
      key_id: company.keyIds.get(`${person.id}/${application}`) ?? '',
      principal_id: person.id,
      policy_id: created?.eachId ?? '',
      team_id: created?.id ?? null,
      refused_at: at,
      endpoint: 'chat_completions',
      model_requested: model,
      http_status: 429,
      code: 'budget_exhausted',
      message: `The budget of ${team.name} is used up until ${end?.toISOString()}.`,
      attempts: 0,
      counter: {
        policy_id: created?.poolId ?? '',
        subject: 'policy',
        limits: 'budget' as const,
        limit: String(pool?.limit ?? 0n),
        spent: String(pool?.spent ?? 0n),
        wanted: String(wanted),
        window_start: start.toISOString(),
        resets_at: end?.toISOString() ?? null,
      },
      attribution: JSON.stringify({ user: person.id.replace(/@.*/, ''), team: team.name, project }),
      counts: null,
    };
  });
  const last = rows.at(-1)?.refused_at;
  if (last) await recordRefusals(db, { producerId, epoch: EPOCH, n: 1n, rows }, last);
}

async function readLimits(
  db: Database,
  policyIds: readonly string[],
): Promise<Map<string, { limit: bigint; spent: bigint }>> {
  if (policyIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('spend_buckets')
    .innerJoin('policies', 'policies.id', 'spend_buckets.policy_id')
    .select(['policies.id', 'policies.limit_nano_usd', 'spend_buckets.spent_nano_usd'])
    .where('policies.id', 'in', policyIds)
    .where('spend_buckets.subject', '=', 'policy')
    .orderBy('spend_buckets.window_start')
    .execute();
  return new Map(rows.map((row) => [row.id, { limit: row.limit_nano_usd ?? 0n, spent: row.spent_nano_usd }]));
}

function sha256(text: string): Uint8Array {
  return createHash('sha256').update(text).digest();
}
