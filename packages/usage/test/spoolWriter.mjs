import { openSync, writeSync } from 'node:fs';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { UsageEventSchema } from '@weighbridge/contracts';
import { newUuid } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import { openSpool } from '../dist/spool/spool.js';

/** Begins and settles attempts until it is killed, and writes each to a log after it is done. */
const [dir, logFile] = process.argv.slice(2);
const log = openSync(logFile, 'a');
const print = (...words) => writeSync(log, `${words.join(' ')}\n`);
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
print('epoch', spool.epoch);
const open = [];
/** The words of attempts that are being settled, by event id. */
const settling = new Map();
spool.onSettled(({ n, bytes }) => settling.get(fromBinary(UsageEventSchema, bytes).eventId).push(n));
let done = [];
for (let step = 1; ; step++) {
  if (Math.random() < 0.55 || open.length === 0) {
    const eventId = newUuid();
    const shard = step % 4;
    const reserveNanoUsd = BigInt(step);
    const head = message({ eventId, model: 'm'.repeat(step % 500) });
    open.push({ shard, attempt: spool.begin({ eventId, shard, reserveNanoUsd, head }) });
    done.push(['begun', eventId, shard, step]);
  } else {
    const [{ shard, attempt }] = open.splice(Math.floor(Math.random() * open.length), 1);
    const words = ['settled', attempt.eventId, shard, step];
    settling.set(attempt.eventId, words);
    attempt.settle(message({ usage: {}, costNanoUsd: BigInt(step) }));
    done.push(words);
  }
  // Several in a turn; none is printed before it is written.
  if (done.length < 4 && Math.random() < 0.7) continue;
  if (step % 5 === 0) await spool.durable();
  else spool.flush();
  for (const words of done) print(...words);
  done = [];
  if (step % 50 > 3) continue;
  const shard = step % 4;
  const n = (spool.own.lastN(shard) + spool.own.ackedN(shard)) / 2n;
  print('acking', shard, n);
  spool.own.ack(shard, n);
}
