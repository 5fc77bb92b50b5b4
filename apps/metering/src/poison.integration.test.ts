import { create, fromBinary } from '@bufbuild/protobuf';
import { TokenUsageSchema, UsageConfirmsSchema, type UsageEvent } from '@weighbridge/contracts';
import { discardQuarantined, listQuarantine, readAcks } from '@weighbridge/ledger';
import { eventually } from '@weighbridge/testing';
import { MAX_CLASS_TOKENS, MAX_COST_NANO_USD } from '@weighbridge/usage';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { batchOf, event, newSource, type Source, shard, useMetering } from '../test/useMetering.ts';

const metering = useMetering();
const { database, publish, settled, spent } = metering;

const usage = (input: number) => create(TokenUsageSchema, { input });

/** Each kind of usage that the ledger can't take, and why: by validation, then by the database. */
const POISONS: readonly (readonly [reason: RegExp, fields: Partial<UsageEvent>])[] = [
  [/tokens/, { usage: usage(MAX_CLASS_TOKENS + 1) }],
  [/cost/, { costNanoUsd: MAX_COST_NANO_USD + 1n }],
  [/cost is negative/, { costNanoUsd: -1n }],
  [/event_id/, { eventId: 'x' }],
  [/NUL|control|response_id/i, { responseId: 'a\0' }],
  [/SQLSTATE 23514, constraint planted/, { model: 'planted/constraint' }],
  [/SQLSTATE 22003/, { model: 'planted/22003' }],
  [/SQLSTATE 54000/, { model: 'planted/54000' }],
  [/SQLSTATE P0001/, { model: 'planted/P0001' }],
];

/** Validation refuses everything today that the database is known to refuse: so the database is made stricter. */
async function makeStricter(): Promise<void> {
  await sql`
    ALTER TABLE usage_events ADD CONSTRAINT planted CHECK (model <> 'planted/constraint') NOT VALID`.execute(
    database.db,
  );
  await sql`
    CREATE OR REPLACE FUNCTION planted() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'planted' USING ERRCODE = substr(NEW.model, 9);
    END $$`.execute(database.db);
  await sql`
    CREATE TRIGGER planted BEFORE INSERT ON usage_events FOR EACH ROW
    WHEN (NEW.model LIKE 'planted/_____') EXECUTE FUNCTION planted()`.execute(database.db);
}

it('records all other usage of a batch with every kind of poison, acks it, and goes on, also after a restart', async () => {
  await makeStricter();
  const [attacker, ...others] = [newSource(), newSource(), newSource()] as const;
  const acked = new Map<string, bigint>();
  for (const { producerId } of [attacker, ...others]) {
    metering.stream.onAck(producerId, (payload) => {
      for (const { n } of fromBinary(UsageConfirmsSchema, payload).confirms) acked.set(producerId, n);
    });
  }
  const ofOthers = (source: Source, firstN: number) =>
    batchOf(
      source,
      firstN,
      Array.from({ length: 40 }, () => event({ principalId: 'bob' })),
    );
  const poisons = POISONS.map(([, fields]) => event({ principalId: 'eve', ...fields }));
  const mixed = batchOf(
    attacker,
    1,
    poisons.flatMap((poison) => [event({ principalId: 'eve' }), poison]),
  );
  // While no worker runs, so that the next one gets all of it as one batch.
  const messages = [ofOthers(others[0], 1), mixed, ofOthers(others[1], 1)];
  await metering.restart(async () => {
    for (const message of messages) await publish(message);
  });
  const good = 80 + poisons.length;
  await settled(good, poisons.length);

  const held = await listQuarantine(database.db, { state: 'held', limit: 100 });
  const byNumber = [...held].sort((a, b) => Number((a.n ?? 0n) - (b.n ?? 0n)));
  expect(byNumber.map(({ n }) => n)).toEqual(POISONS.map((_, at) => BigInt(2 * at + 2)));
  for (const [at, { reason, producer_id, epoch, principal_id }] of byNumber.entries()) {
    expect(reason).toMatch(POISONS[at]?.[0] ?? /^$/);
    expect({ producer_id, epoch, principal_id }).toEqual({
      producer_id: attacker.producerId,
      epoch: attacker.epoch,
      principal_id: 'eve',
    });
  }
  expect(await spent()).toBe(BigInt(good) * 7n);
  const numbers = {
    [attacker.producerId]: 2n * BigInt(poisons.length),
    [others[0].producerId]: 40n,
    [others[1].producerId]: 40n,
  };
  await eventually(() => expect(Object.fromEntries(acked)).toEqual(numbers));
  expect(metering.failures).toBe(0);

  // Delivered again to a new worker, as after a crash before the acks, it changes nothing; what follows it is recorded.
  const [first] = held;
  await discardQuarantined(database.db, {
    id: first?.id ?? 0n,
    by: 'ada',
    note: 'no spend',
    now: new Date(),
  });
  await metering.restart(async () => {
    for (const message of messages) await publish(message);
    await publish(ofOthers(others[0], 41));
  });
  await settled(good + 40, poisons.length);
  expect(await spent()).toBe(BigInt(good + 40) * 7n);
  // The numbers of a batch with poison are committed after its events.
  await eventually(async () => {
    const acks = await readAcks(database.db, others[0].producerId, [others[0].epoch]);
    expect(acks).toMatchObject([{ shard, n: 80n }]);
  });
  expect(await listQuarantine(database.db, { state: 'held', limit: 100 })).toHaveLength(poisons.length - 1);
  expect(metering.failures).toBe(0);
}, 60_000);
