import {
  type BucketStatus,
  checkNats,
  type MissingPermission,
  type NatsCheck,
  type NatsRole,
  type NatsStatus,
} from '@weighbridge/bus';
import { USAGE_SHARDS } from '@weighbridge/contracts';
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
    permissionsFinding(status),
    streamFinding(stream),
    ...(stream.exists ? [consumersFinding(stream)] : []),
    ...buckets.map(bucketFinding),
    status.now
      ? clockFinding("nats' clock", status.now, before, now())
      : skipped(
          "nats' clock",
          'it can only be read from a bucket: there is none yet, or this user may not read it so',
        ),
  ];
}

const USERS =
  'docs/deploy.md#nats has the permissions of each app, deploy/nats/users.conf the configuration.';

/** Whether the user has what an app needs, and not what all apps need. */
function permissionsFinding({ user, missing }: NatsStatus): Finding {
  const check = "nats user's permissions";
  const name = user === undefined ? 'this client' : user;
  const [first, second] = (Object.entries(missing) as [keyof typeof missing, readonly MissingPermission[]][])
    .map(([role, lacks]) => ({ role, lacks }))
    .sort((a, b) => rank(a, user) - rank(b, user));
  if (!first || !second) return skipped(check, 'no app uses NATS');
  if (first.lacks.length > 0) {
    const lacks = first.lacks.map(({ operation, subject }) => `${operation} to ${subject}`).join(', ');
    return fail(check, `${name} lacks, as the user of ${nameOf(first.role)}: ${lacks}`, USERS);
  }
  if (second.lacks.length > 0)
    return ok(check, `${name} has those of ${nameOf(first.role)}, not of all apps`);
  return warn(
    check,
    `${name} may do what every app may do: who takes over one of them can forge acks and usage`,
    `Give each app its own user. ${USERS}`,
  );
}

/** The role that a user is for: that of its name, or else the one that it lacks least for. */
function rank(
  { role, lacks }: { role: string; lacks: readonly unknown[] },
  user: string | undefined,
): number {
  return role === user ? -1 : lacks.length;
}

const nameOf = (role: NatsRole): string => (role === 'metering' ? role : 'the data plane');

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
    unread.some((shard) => shard < USAGE_SHARDS)
      ? 'Metering has not run yet, or can not reach this NATS. Start it, or check its NATS_URL.'
      : 'Metering reads a shard within seconds of its first use. If this persists, it is of an earlier release: upgrade it, or unset USAGE_SHARDS at the proxies.',
  );
}

function bucketFinding({ name, exists, mismatch }: BucketStatus): Finding {
  const check = `bucket ${name}`;
  if (!exists) return warn(check, 'it does not exist', 'The first data plane that starts creates it.');
  return mismatch === undefined ? ok(check, 'as expected') : fail(check, mismatch.problem, mismatch.fix);
}
