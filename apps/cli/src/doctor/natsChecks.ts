import { type BucketStatus, checkNats, type NatsCheck, type NatsStatus } from '@weighbridge/bus';
import { clockFinding, type Finding, fail, ok, skipped, warn, why } from './finding.ts';

const WARN_USED_RATIO = 0.7;

/** Checks that NATS responds, and that its stream and buckets match what the apps would create with these settings. */
export async function natsChecks(expected: NatsCheck, now: () => Date): Promise<Finding[]> {
  const before = now();
  let status: NatsStatus;
  try {
    status = await checkNats(expected);
  } catch (error) {
    return [
      fail(
        'nats',
        why(error),
        'Correct NATS_URL and its credentials, start NATS, or allow connections to it.',
      ),
    ];
  }
  const { version, jetStreamFailure, stream, buckets } = status;
  if (jetStreamFailure !== undefined) {
    return [
      fail(
        'nats',
        `${version}, without JetStream: ${jetStreamFailure}`,
        'Start NATS with JetStream (`-js`, or `jetstream {}` in its configuration), and enable it for the account.',
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
      : skipped("nats' clock", 'it can only be read from a bucket, and there is none yet'),
  ];
}

function streamFinding({ exists, mismatch, usedRatio }: NatsStatus['stream']): Finding {
  if (!exists) {
    return warn(
      'usage stream',
      'it does not exist',
      'The first app that starts creates it. If an app has run already, someone deleted it: proxies create it again and resend what the ledger lacks.',
    );
  }
  if (mismatch !== undefined) {
    return fail('usage stream', mismatch.problem, mismatch.fix);
  }
  const full = `${Math.round(usedRatio * 100)} % full`;
  if (usedRatio < WARN_USED_RATIO) return ok('usage stream', `as expected, ${full}`);
  return warn(
    'usage stream',
    full,
    'Metering is too slow, or does not run: check its log. Once the stream is full, usage waits in the spools.',
  );
}

function consumersFinding({ unread, consumerMismatches }: NatsStatus['stream']): Finding {
  if (consumerMismatches.length > 0) {
    return fail(
      'usage consumers',
      consumerMismatches.join('; '),
      'Restart metering, which corrects what can be changed. Never delete a consumer while the stream holds messages.',
    );
  }
  if (unread.length === 0) return ok('usage consumers', 'one per shard');
  return warn(
    'usage consumers',
    `missing for ${unread.length === 1 ? 'shard' : 'the shards'} ${unread.join(', ')}`,
    'Metering has not run yet, or can not reach this NATS. Start it, or check its NATS_URL.',
  );
}

function bucketFinding({ name, exists, mismatch }: BucketStatus): Finding {
  const check = `bucket ${name}`;
  if (!exists) return warn(check, 'it does not exist', 'The first data plane that starts creates it.');
  return mismatch === undefined ? ok(check, 'as expected') : fail(check, mismatch.problem, mismatch.fix);
}
