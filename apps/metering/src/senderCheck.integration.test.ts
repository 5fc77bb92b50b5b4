import { randomUUID } from 'node:crypto';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { type ProducerKey, UsageBatchSchema } from '@weighbridge/contracts';
import { newUuid } from '@weighbridge/domain';
import { readAcks, registerProducer, releaseQuarantined } from '@weighbridge/ledger';
import { eventually } from '@weighbridge/testing';
import { signBatch } from '@weighbridge/usage';
import { describe, expect, it } from 'vitest';
import { batchOf, event, newSource, type Source, shard, useMetering } from '../test/useMetering.ts';

const metering = useMetering();
const { database, publish, settled, spent } = metering;

/** Of an event of the tests. */
const COST = event().costNanoUsd;

/** A proxy of an earlier release. */
const newOldSource = (): Source => ({ producerId: newUuid(), epoch: newUuid(), key: undefined });

describe('metering', () => {
  it("keeps usage that names another producer than its subject in quarantine, and takes no number of that one's for it", async () => {
    const [attacker, victim] = [newSource(), newSource()];
    const forged = batchOf(victim, 1, [event({ principalId: 'victim' })]);
    await metering.stream.publish(shard, attacker.producerId, randomUUID(), forged);
    await metering.stream.publish(shard, 'no-uuid', randomUUID(), forged);
    await publish(batchOf(victim, 1, [event({ costNanoUsd: 11n })]));
    await settled(1, 2);
    expect(await spent()).toBe(11n);
    expect(await readAcks(database.db, attacker.producerId, [attacker.epoch])).toEqual([]);
    const held = await database.db.selectFrom('quarantined_usage').selectAll().orderBy('id').execute();
    expect(held.map(({ kind, producer_id }) => [kind, producer_id])).toEqual([
      ['batch', attacker.producerId],
      ['batch', '00000000-0000-0000-0000-000000000000'],
    ]);
    for (const { id } of held) {
      const release = await releaseQuarantined(database.db, { id, by: 'operator', now: new Date() });
      expect(release).toEqual({
        stillRefused: expect.stringContaining('the message came on the subject of'),
      });
    }
    expect(await spent()).toBe(11n);
  });

  it("drops usage that names a producer that did not sign it, counts it, and takes no number of that one's for it", async () => {
    const [forger, victim] = [newSource(), newSource()];
    const spend = [event({ costNanoUsd: 1_000n })];
    const asVictim = { producerId: victim.producerId, epoch: victim.epoch };
    const real = batchOf(victim, 1, [event({ costNanoUsd: 11n })]);
    const changed = Buffer.from(real);
    const at = changed.indexOf('mock/echo');
    changed[at] = 'M'.charCodeAt(0);
    const unfinished = fromBinary(UsageBatchSchema, real);
    const forged = [
      batchOf({ ...asVictim, key: undefined }, 1, spend),
      // Signed by another key, which is sent along, or the victim's.
      batchOf({ ...asVictim, key: forger.key }, 1, spend),
      signBatch({ ...asVictim, shard, firstN: 1n, events: unfinished.events }, {
        privateKey: forger.key?.privateKey,
        publicKey: victim.key?.publicKey,
      } as ProducerKey),
      changed,
      // What follows the signature would be signed by no one.
      Buffer.concat([
        real,
        toBinary(UsageBatchSchema, create(UsageBatchSchema, { events: unfinished.events })),
      ]),
      batchOf({ ...newOldSource(), key: forger.key }, 1, spend),
      // Made up: no control plane knows it.
      batchOf(newOldSource(), 1, spend),
    ];
    for (const payload of forged) await publish(payload);
    await publish(real);
    await settled(1, 0);
    await eventually(async () =>
      expect(await metering.metrics.text()).toMatch(
        new RegExp(`^weighbridge_usage_forged_total ${forged.length}$`, 'm'),
      ),
    );
    expect(await spent()).toBe(11n);
    expect(await readAcks(database.db, victim.producerId, [victim.epoch])).toMatchObject([{ n: 1n }]);
    expect(await database.db.selectFrom('producers').select('producer_id').execute()).toEqual([
      { producer_id: victim.producerId },
    ]);
  });

  it('records what a proxy of an earlier release sends, which signs nothing, once the control plane knows it', async () => {
    const old = newOldSource();
    await publish(batchOf(old, 1, [event()]));
    await eventually(async () =>
      expect(await metering.metrics.text()).toMatch(/^weighbridge_usage_forged_total 1$/m),
    );
    const { producerId, epoch } = old;
    await registerProducer(database.db, { producerId, epoch, name: 'host', now: new Date() });
    // The proxy sends it again, since it got no ack.
    await publish(batchOf(old, 1, [event()]));
    await settled(1, 0);
    expect(await readAcks(database.db, producerId, [epoch])).toMatchObject([{ n: 1n }]);
  });

  it('records unsigned usage of a producer with a key only while a proxy of release 0.1.0 holds its spool', async () => {
    const { producerId, epoch, key } = newSource();
    const unsigned = { producerId, epoch, key: undefined };
    const forged = async (count: number) =>
      await eventually(async () =>
        expect(await metering.metrics.text()).toMatch(
          new RegExp(`^weighbridge_usage_forged_total ${count}$`, 'm'),
        ),
      );
    const register = (run: { epoch: string; signsUsage?: boolean }) =>
      registerProducer(database.db, { producerId, name: 'host', now: new Date(), ...run });
    await register({ epoch });
    await publish(batchOf({ producerId, epoch, key }, 1, [event()]));
    await settled(1, 0);
    await publish(batchOf(unsigned, 2, [event()]));
    await forged(1);
    // Registered by a control plane of release 0.1.0, which does not say.
    const held = newUuid();
    await register({ epoch: held });
    await database.db.updateTable('producers').set({ signs_usage: null }).where('epoch', '=', held).execute();
    await publish(batchOf({ ...unsigned, epoch: held }, 1, [event()]));
    await forged(2);
    // That proxy connects to a control plane of this release. It also sends what the process before it left.
    await register({ epoch: held, signsUsage: false });
    await publish(batchOf({ ...unsigned, epoch: held }, 1, [event()]));
    await publish(batchOf(unsigned, 2, [event()]));
    await settled(3, 0);
    await publish(batchOf({ ...unsigned, epoch: newUuid() }, 1, [event()]));
    await forged(3);
    // Another producer's spool is none of its.
    const other = newSource();
    await registerProducer(database.db, { ...other, name: 'other', now: new Date() });
    await publish(batchOf({ ...other, key: undefined }, 1, [event()]));
    await forged(4);
    // It is upgraded again.
    await register({ epoch: newUuid() });
    await publish(batchOf({ ...unsigned, epoch: held }, 2, [event()]));
    await forged(5);
    expect(await spent()).toBe(3n * COST);
  });
});
