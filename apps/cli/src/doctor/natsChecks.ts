import { type BucketStatus, checkNats, type NatsCheck, type NatsStatus } from '@weighbridge/bus';
import { clockFinding, type Finding, fail, ok, skipped, warn, why } from './finding.ts';

const FILLING = 0.7;

/** Whether NATS is there, and its stream and buckets are as the apps would make them by these settings. */
export async function natsChecks(wanted: NatsCheck, now: () => Date): Promise<Finding[]> {
  const before = now();
  let status: NatsStatus;
  try {
    status = await checkNats(wanted);
  } catch (error) {
    return [
      fail(
        'nats',
        why(error),
        'Correct NATS_URL and what it says of credentials, or start NATS, or open the way to it.',
      ),
    ];
  }
  const { version, jetStreamFailure, stream, buckets } = status;
  if (jetStreamFailure !== undefined) {
    return [
      fail(
        'nats',
        `${version}, without JetStream: ${jetStreamFailure}`,
        'Start it with JetStream (`-js`, or `jetstream {}` in its configuration), and allow it to the account.',
      ),
    ];
  }
  return [
    ok('nats', version),
    streamFinding(stream),
    ...(stream.exists ? [consumersFinding(stream)] : []),
    ...buckets.map(bucketFinding),
    status.now
      ? clockFinding("nats' clock", status.now, before, now())
      : skipped("nats' clock", 'there is no bucket yet that it could be asked by'),
  ];
}

function streamFinding({ exists, mismatch, usedRatio }: NatsStatus['stream']): Finding {
  if (!exists) {
    return warn(
      'usage stream',
      'there is none',
      'The first app that starts makes it. Where one has run: somebody deleted it, and proxies make it again and send anew what the ledger lacks.',
    );
  }
  if (mismatch !== undefined) {
    return fail('usage stream', mismatch.problem, mismatch.fix);
  }
  const full = `${Math.round(usedRatio * 100)} % full`;
  if (usedRatio < FILLING) return ok('usage stream', `as it should be, ${full}`);
  return warn(
    'usage stream',
    full,
    'Metering does not keep up, or does not run: look at its log. Full, usage waits in the spools.',
  );
}

function consumersFinding({ unread, consumerMismatches }: NatsStatus['stream']): Finding {
  if (consumerMismatches.length > 0) {
    return fail(
      'usage consumers',
      consumerMismatches.join('; '),
      'Restart metering, which sets right what can be changed. Never delete one while the stream holds messages.',
    );
  }
  if (unread.length === 0) return ok('usage consumers', 'one for each shard');
  return warn(
    'usage consumers',
    `none for ${unread.length === 1 ? 'shard' : 'the shards'} ${unread.join(', ')}`,
    'Metering has not run yet, or does not reach this NATS: start it.',
  );
}

function bucketFinding({ name, exists, mismatch }: BucketStatus): Finding {
  const check = `bucket ${name}`;
  if (!exists) return warn(check, 'there is none', 'The first data plane that starts makes it.');
  return mismatch === undefined ? ok(check, 'as it should be') : fail(check, mismatch.problem, mismatch.fix);
}
