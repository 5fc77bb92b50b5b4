import { openSync, writeSync } from 'node:fs';
import { create, toBinary } from '@bufbuild/protobuf';
import { UsageEventSchema } from '@weighbridge/contracts';
import { newUuid } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import { openSpool } from '../dist/spool/spool.js';

/** Begins and settles attempts until it is killed, and writes each to a log after it is done. */
const [dir, logFile] = process.argv.slice(2);
const log = openSync(logFile, 'a');
const tell = (...words) => writeSync(log, `${words.join(' ')}\n`);
const message = (fields) => toBinary(UsageEventSchema, create(UsageEventSchema, fields));

const spool = await openSpool({
  dir,
  maxBytes: 1024 ** 3,
  segmentBytes: 20_000,
  sync: 'process',
  newId: newUuid,
  now: () => new Date(),
  logger: createLogger('test'),
});
tell('epoch', spool.epoch);
const open = [];
for (let step = 1; ; step++) {
  if (Math.random() < 0.55 || open.length === 0) {
    const eventId = newUuid();
    const shard = step % 4;
    const reserveNanoUsd = BigInt(step);
    const head = message({ eventId, model: 'm'.repeat(step % 500) });
    open.push({ shard, attempt: spool.begin({ eventId, shard, reserveNanoUsd, head }) });
    tell('begun', eventId, shard, step);
  } else {
    const [{ shard, attempt }] = open.splice(Math.floor(Math.random() * open.length), 1);
    const { n } = attempt.settle(message({ usage: {}, costNanoUsd: BigInt(step) }));
    tell('settled', attempt.eventId, shard, step, n);
  }
  if (step % 50 === 0) {
    const shard = step % 4;
    const n = (spool.own.lastN(shard) + spool.own.confirmedN(shard)) / 2n;
    tell('confirming', shard, n);
    spool.own.confirm(shard, n);
  }
  if (step % 200 === 0) await new Promise((resolve) => setImmediate(resolve));
}
