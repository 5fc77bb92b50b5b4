import { AckPolicy, JetStreamApiCodes, JetStreamApiError, jetstreamManager } from '@nats-io/jetstream';
import { connect, type NatsConnection, nanos } from '@nats-io/transport-node';
import {
  NATS_USERS,
  type NatsPermissions,
  type NatsRole,
  natsAddress,
  natsConfiguration,
  openJetStreamUsageStream,
  permissionsOf,
} from '@weighbridge/bus';
import { USAGE_SHARDS } from '@weighbridge/contracts';
import { openPinBucket, openResponseBucket } from '@weighbridge/data-plane';
import { newUuid } from '@weighbridge/domain';
import { createEmptyDatabase, startNats, type TestNats, useDatabase, useNats } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createAppRole } from './appRole.ts';
import { ahead, diagnose } from './doctor.ts';

describe('weighbridge doctor: database', () => {
  const database = useDatabase();

  it('finds no problem, and lists the skipped checks', async () => {
    const { code, levels, said } = await diagnose({ DATABASE_URL: database.url });
    for (const check of ['database', 'schema', 'rights', "database's clock"]) {
      expect([check, levels(check)]).toEqual([check, levels(check).map(() => 'ok')]);
      expect(levels(check)).not.toEqual([]);
    }
    expect([levels('service'), levels('nats'), levels('spool')]).toEqual([
      ['skipped'],
      ['skipped'],
      ['skipped'],
    ]);
    expect(said('service')).toContain('No key for the service');
    expect(said('nats')).toContain('NATS_URL');
    expect(code).toBe(0);
  });

  it('reports an unreachable database, without the password', async () => {
    const { code, levels, said } = await diagnose({
      DATABASE_URL: 'postgresql://user:secret@127.0.0.1:1/db',
    });
    expect([code, levels('database')]).toEqual([1, ['fail']]);
    expect(said('database')).toMatch(/ECONNREFUSED.*DATABASE_URL/);
    expect(said('database')).not.toContain('secret');
  });

  it('reports a schema that is older or newer than this release', async () => {
    const empty = await createEmptyDatabase();
    try {
      const { levels, said } = await diagnose({ DATABASE_URL: empty.url });
      expect(levels('schema')).toEqual(['fail']);
      expect(said('schema')).toMatch(/lacks the migration 0001-initial.*weighbridge migrate/);
    } finally {
      await empty.drop();
    }
    const newer = '9999-of-tomorrow';
    await sql`INSERT INTO schema_migrations (name, timestamp) VALUES (${newer}, '')`.execute(database.db);
    expect((await diagnose({ DATABASE_URL: database.url })).levels('schema')).toEqual(['ok']);
    await sql`INSERT INTO schema_requirements VALUES (${newer}, ${newer})`.execute(database.db);
    const { code, said } = await diagnose({ DATABASE_URL: database.url });
    expect([code, said('schema')]).toEqual([
      1,
      expect.stringMatching(/newer than this release.*9999-of-tomorrow/),
    ]);
    await sql`DELETE FROM schema_requirements`.execute(database.db);
    await sql`DELETE FROM schema_migrations WHERE name = ${newer}`.execute(database.db);
  });

  it('reports missing rights of the user', async () => {
    const role = `doctor_${process.pid}_${Date.now()}`;
    await sql.raw(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`).execute(database.db);
    try {
      await sql.raw(`GRANT SELECT ON ALL TABLES IN SCHEMA public TO ${role}`).execute(database.db);
      await sql.raw('REVOKE CREATE ON SCHEMA public FROM PUBLIC').execute(database.db);
      const url = new URL(database.url);
      url.username = role;
      url.password = 'secret';
      const { code, levels, said } = await diagnose({ DATABASE_URL: url.href });
      expect([code, levels('database'), levels('schema'), levels('rights')]).toEqual([
        1,
        ['ok', 'ok'],
        ['ok'],
        ['fail'],
      ]);
      expect(said('rights')).toMatch(
        /may not read and write .* more tables; may not number new rows; may not create and drop the months/,
      );
      expect(said('rights')).toMatch(/GRANT/);
      await sql.raw(`REVOKE SELECT ON schema_migrations FROM ${role}`).execute(database.db);
      expect((await diagnose({ DATABASE_URL: url.href })).said('schema')).toMatch(/can't be read/);
    } finally {
      await sql.raw(`DROP OWNED BY ${role}`).execute(database.db);
      await sql.raw(`DROP ROLE ${role}`).execute(database.db);
    }
  });

  it('finds no problem with a role that may not change the schema', async () => {
    const role = await createAppRole(database);
    try {
      const { levels } = await diagnose({ DATABASE_URL: role.url });
      expect([levels('database'), levels('schema'), levels('rights')]).toEqual([
        ['ok', 'ok'],
        ['ok'],
        ['ok'],
      ]);
    } finally {
      await role.drop();
    }
  });

  it('reports a database that accepts no writes', async () => {
    const url = new URL(database.url);
    url.searchParams.set('options', '-c default_transaction_read_only=on');
    const { code, levels, said } = await diagnose({ DATABASE_URL: url.href });
    expect([code, levels('database')[0]]).toEqual([1, 'fail']);
    expect(said('database')).toMatch(/accepts no writes.*primary/);
  });

  it('reports spend that has waited for more than a minute to be merged', async () => {
    const append = (seconds: number) => sql`
      INSERT INTO appended_spend (bucket_key, producer_id, epoch, nano_usd, settled_from, appended_at)
      VALUES ('pol_1/1/0/policy', ${newUuid()}, ${newUuid()}, 7, clock_timestamp(), clock_timestamp() - make_interval(secs => ${seconds}))`;
    try {
      await append(30).execute(database.db);
      expect((await diagnose({ DATABASE_URL: database.url })).levels('counters')).toEqual([]);
      await append(90).execute(database.db);
      const { code, levels, said } = await diagnose({ DATABASE_URL: database.url });
      expect([code, levels('counters')]).toEqual([1, ['fail']]);
      expect(said('counters')).toMatch(/waited for \d+ s .* limits hold.*Start metering/);
    } finally {
      await sql`TRUNCATE appended_spend`.execute(database.db);
    }
  });

  it('compares the clocks', async () => {
    const { code, levels, said } = await diagnose({ DATABASE_URL: database.url }, { now: ahead(600) });
    expect([code, levels("database's clock")]).toEqual([1, ['fail']]);
    expect(said("database's clock")).toMatch(/\d+ s behind the local clock.*Synchronize/);
    const little = await diagnose({ DATABASE_URL: database.url }, { now: ahead(-15) });
    expect([little.code, little.levels("database's clock")]).toEqual([0, ['warn']]);
    expect(little.said("database's clock")).toContain('ahead of');
  });
});

describe('weighbridge doctor: NATS', () => {
  const nats = useNats();
  let connection: NatsConnection;
  beforeAll(async () => {
    connection = await connect({ servers: nats.url });
  });
  afterAll(async () => {
    await connection.close();
  });
  const manager = () => jetstreamManager(connection);
  const onError = () => {};
  const MIB = 1_048_576;

  beforeEach(async () => {
    const pins = { ttlMs: 3_600_000, maxBytes: 134_217_728, replicas: 1 };
    await (await openPinBucket(pins, { store: { natsUrl: nats.url }, onError })).close();
    await (await openResponseBucket(nats.url, 1, onError))?.close();
  });
  afterEach(async () => {
    for (const name of ['USAGE_EVENTS', 'KV_SESSION_PINS', 'KV_STORED_RESPONSES', 'KV_RESPONSE_CACHE']) {
      // What is left would be found by the next test.
      await (await manager()).streams.delete(name).catch((error: Error) => {
        const isMissing =
          error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamNotFound;
        if (!isMissing) throw error;
      });
    }
  });

  /** The stream as the apps create it, read once by metering. */
  async function usage(maxBytes = MIB, { read = true } = {}) {
    const stream = await openJetStreamUsageStream({ url: nats.url, name: 'test', maxBytes, onError });
    const readOnce = async (shard: number) => (await stream.consume(shard, async () => {})).stop();
    // A consumer takes a second to stop.
    if (read) await Promise.all([0, 1, 2, 3].map(readOnce));
    return stream;
  }
  const env = () => ({ NATS_URL: nats.url, NATS_STREAM_MAX_BYTES: String(MIB) });

  it('finds no problem', async () => {
    await (await usage()).close();
    const { code, findings } = await diagnose(env());
    expect(findings.filter(({ level }) => level === 'ok').map(({ check }) => check)).toEqual([
      'nats',
      'usage stream',
      'usage consumers',
      'bucket SESSION_PINS',
      'bucket STORED_RESPONSES',
      "nats' clock",
    ]);
    const others = findings.filter(({ level }) => level !== 'ok' && level !== 'skipped');
    expect(others.map(({ level, check }) => [level, check])).toEqual([['warn', "nats user's permissions"]]);
    expect(others[0]?.detail).toContain('may do what every app may do');
    expect(code).toBe(0);
    // The bucket that it read the clock from is removed.
    expect(await (await manager()).consumers.list('KV_SESSION_PINS').next()).toEqual([]);
  });

  it('reports an unreachable server, and an invalid setting', async () => {
    const away = await diagnose({ NATS_URL: 'nats://user:secret@127.0.0.1:1' });
    expect([away.code, away.levels('nats')]).toEqual([1, ['fail']]);
    expect(away.said('nats')).toMatch(/refused.*NATS_URL/i);
    expect(away.said('nats')).not.toContain('secret');
    const wrong = await diagnose({ ...env(), NATS_STREAM_REPLICAS: '9' });
    expect([wrong.code, wrong.said('nats')]).toEqual([
      1,
      expect.stringContaining('NATS_STREAM_REPLICAS is not valid'),
    ]);
  });

  it('reports missing JetStream', async () => {
    const plain = await startNats({ jetStream: false });
    try {
      const { code, levels, said } = await diagnose({ NATS_URL: plain.url });
      expect([code, levels('nats'), levels('usage')]).toEqual([1, ['fail'], []]);
      expect(said('nats')).toMatch(/without JetStream/);
    } finally {
      await plain.stop();
    }
  });

  it('reports what does not exist yet', async () => {
    for (const name of ['KV_SESSION_PINS', 'KV_STORED_RESPONSES'])
      await (await manager()).streams.delete(name);
    const { code, levels, said } = await diagnose(env());
    expect([code, levels('usage stream'), levels('bucket SESSION_PINS'), levels("nats' clock")]).toEqual([
      0,
      ['warn'],
      ['warn'],
      ['skipped'],
    ]);
    await (await usage(MIB, { read: false })).close();
    const unread = await diagnose(env());
    expect(unread.levels('usage')).toEqual(['ok', 'warn']);
    expect(unread.said('usage consumers')).toMatch(
      /missing for the shards 0, 1, 2, 3 .*Metering has not run/,
    );
    expect(said('usage stream')).toContain('it does not exist');
  });

  it('warns of usage in a shard that metering of an earlier release does not read', async () => {
    const stream = await usage();
    await stream.publish(9, '0198e7b1-6f3a-7c55-8d1e-4f2a9b3c7d60', '9', new Uint8Array(1));
    await stream.close();
    const { code, levels, said } = await diagnose(env());
    expect([code, levels('usage consumers')]).toEqual([0, ['warn']]);
    expect(said('usage consumers')).toMatch(/missing for shard 9.*unset USAGE_SHARDS at the proxies/);
  });

  it('reports how stream, consumers and buckets differ, and how to fix it', async () => {
    await (await usage()).close();
    const streams = (await manager()).streams;
    await streams.update('USAGE_EVENTS', { max_bytes: 3 * MIB, max_age: nanos(3_600_000) });
    await streams.update('KV_SESSION_PINS', { max_age: nanos(600_000) });
    await (await manager()).consumers.update('USAGE_EVENTS', 'metering-s2', { ack_wait: nanos(1_000) });
    const { code, levels, said } = await diagnose(env());
    expect([code, levels('usage'), levels('bucket SESSION_PINS')]).toEqual([1, ['fail', 'fail'], ['fail']]);
    expect(said('usage stream')).toMatch(/max_bytes is 3145728 and should be 1048576.*max_age.*To fix it/);
    expect(said('usage consumers')).toMatch(/metering-s2: ack_wait is 1000000000 and should be 60000000000/);
    expect(said('bucket SESSION_PINS')).toMatch(/max_age.*SESSION_PIN_TTL_MS/);
  });

  it('checks the bucket of shared responses if the proxies have one', async () => {
    await (await usage()).close();
    const shared = {
      RESPONSE_CACHE_SHARED: 'true',
      RESPONSE_CACHE_KEY: Buffer.alloc(32, 7).toString('base64'),
    };
    expect((await diagnose(env())).levels('bucket')).toEqual(['ok', 'ok']);
    expect((await diagnose({ ...env(), ...shared })).levels('bucket')).toEqual(['ok', 'ok', 'warn']);
  });

  it('warns of a stream that fills up', async () => {
    const stream = await usage();
    for (const id of ['a', 'b', 'c', 'd']) await stream.publish(0, 'producer', id, Buffer.alloc(200_000));
    await stream.close();
    const { code, levels, said } = await diagnose(env());
    expect([code, levels('usage stream')]).toEqual([0, ['warn']]);
    expect(said('usage stream')).toMatch(/7\d % full.*Metering is too slow/);
  });

  it('compares the clocks', async () => {
    await (await manager()).consumers.add('KV_SESSION_PINS', {
      ack_policy: AckPolicy.None,
      durable_name: 'kept',
    });
    const { code, levels } = await diagnose(env(), { now: ahead(-600) });
    expect([code, levels("nats' clock")]).toEqual([1, ['fail']]);
    const { streams } = await manager();
    expect((await streams.info('KV_SESSION_PINS')).state.consumer_count).toBe(1);
  });
});

describe("weighbridge doctor: permissions of NATS' users", () => {
  const without = (permissions: NatsPermissions, subject: string): NatsPermissions => ({
    publish: permissions.publish.filter((one) => one !== subject),
    subscribe: permissions.subscribe.filter((one) => one !== subject),
  });
  const lacking = (role: NatsRole, subject: string, options = {}) => {
    const user = `${role}-lacks-${subject.replace(/\W+/g, '-')}`;
    const passwordVariable = user.toUpperCase().replaceAll('-', '_');
    return {
      user,
      role,
      subject,
      passwordVariable,
      permissions: without(permissionsOf(role, { user, ...options }), subject),
    };
  };
  const LACKING = (['data-plane', 'metering'] as const).flatMap((role) => {
    const { publish, subscribe } = permissionsOf(role);
    // The inbox is needed to be told of anything.
    return [...publish, ...subscribe.slice(1)].map((subject) => lacking(role, subject));
  });
  const sharing = lacking('data-plane', '$KV.RESPONSE_CACHE.>', { sharesCache: true });
  const users = [...NATS_USERS, ...LACKING, sharing];
  let nats: TestNats;
  beforeAll(async () => {
    const env = Object.fromEntries(users.map(({ passwordVariable }) => [passwordVariable, 'secret']));
    nats = await startNats({ configuration: { text: natsConfiguration(users), env } });
    const url = urlOf('operator');
    const onError = () => {};
    const stream = await openJetStreamUsageStream({ url, name: 'test', onError });
    for (let shard = 0; shard < USAGE_SHARDS; shard++)
      await (await stream.consume(shard, async () => {})).stop();
    await stream.close();
    const pins = { ttlMs: 3_600_000, maxBytes: 134_217_728, replicas: 1 };
    await (await openPinBucket(pins, { store: { natsUrl: url }, onError })).close();
  });
  afterAll(() => nats?.stop());
  const urlOf = (user: string) => nats.url.replace('://', `://${user}:secret@`);
  const CHECK = "nats user's permissions";
  const NAMES = { 'data-plane': 'the data plane', metering: 'metering' };

  it.each(['data-plane', 'metering'] as const)('has nothing to say of the user %s', async (user) => {
    const { code, levels, said } = await diagnose({ NATS_URL: urlOf(user) });
    expect([code, levels(CHECK)]).toEqual([0, ['ok']]);
    expect(said(CHECK)).toContain(`${user} has those of ${NAMES[user]}`);
    expect([levels('usage stream'), levels('usage consumers')]).toEqual([['ok'], ['ok']]);
  });

  it('warns of a user who may do everything', async () => {
    const { code, levels } = await diagnose({ NATS_URL: urlOf('operator') });
    expect([code, levels(CHECK)]).toEqual([0, ['warn']]);
  });

  it.each(LACKING)('says that a $role may not use $subject', async ({ user, role, subject }) => {
    const { code, said } = await diagnose({ NATS_URL: urlOf(user) });
    expect(code).toBe(1);
    const [, lacks] =
      new RegExp(`${user} lacks, as the user of ${NAMES[role]}: (.*?) docs/`).exec(said(CHECK)) ?? [];
    expect(lacks).toMatch(/^(publish|subscribe) to \S+$/);
    expect(lacks?.endsWith(` to ${subject}`)).toBe(true);
  });

  it('says what sharing the response cache needs, if it is on', async () => {
    const cache = { RESPONSE_CACHE_SHARED: 'true', RESPONSE_CACHE_KEY: Buffer.alloc(32).toString('base64') };
    const plain = await diagnose({ NATS_URL: urlOf('data-plane'), ...cache });
    expect(plain.said(CHECK)).toContain('publish to $JS.API.STREAM.CREATE.KV_RESPONSE_CACHE');
    const lacks = await diagnose({ NATS_URL: urlOf(sharing.user), ...cache });
    expect(lacks.said(CHECK)).toContain(
      `lacks, as the user of the data plane: publish to ${sharing.subject} docs`,
    );
  });

  it('changes nothing, and sends nothing that an app reads', async () => {
    const connection = await connect(natsAddress(urlOf('operator')));
    const seen: string[] = [];
    connection.subscribe('>', { callback: (_error, { subject }) => void seen.push(subject) });
    const state = async () => {
      const { streams } = await jetstreamManager(connection);
      const found = await Promise.all(['USAGE_EVENTS', 'KV_SESSION_PINS'].map((name) => streams.info(name)));
      return found.map(({ config, state: { messages, consumer_count } }) => ({
        config,
        messages,
        consumer_count,
      }));
    };
    const before = await state();
    await diagnose({ NATS_URL: urlOf('operator') });
    expect(await state()).toEqual(before);
    expect(seen).toContain('usage.v2.weighbridge-doctor.weighbridge-doctor');
    await connection.close();
  });
});
