import { create } from '@bufbuild/protobuf';
import { RecordResponseRequestSchema } from '@weighbridge/contracts';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startTestApi, type TestApi } from '../../../test/testApi.ts';
import { ownedObjects } from '../../grpc/responseMessages.ts';
import { type OwnedObjects, ownersOfObjects, pruneResponses, recordObjects } from './responses.service.ts';

let api: TestApi;
const NOW = new Date('2026-11-20T10:00:00Z');
const DAY_MS = 24 * 3_600_000;

beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());
beforeEach(async () => {
  api.now = NOW;
  await api.db.deleteFrom('stored_responses').execute();
  await api.db.deleteFrom('stored_objects').execute();
});

const deps = () => ({ db: api.db, now: () => api.now });
const record = (fields: Partial<OwnedObjects> = {}) =>
  recordObjects(
    deps(),
    ownedObjects(
      create(RecordResponseRequestSchema, {
        responseId: 'resp_1',
        connectorId: 'con_1',
        principalId: 'ada',
        keyId: 'key_1',
        objectIds: [...(fields.objectIds ?? ['msg_1', 'rs_1'])],
        areLasting: false,
        ...(fields.responseId !== undefined && { responseId: fields.responseId }),
        ...(fields.connectorId !== undefined && { connectorId: fields.connectorId }),
        ...(fields.principalId !== undefined && { principalId: fields.principalId }),
        ...(fields.areLasting !== undefined && { areLasting: fields.areLasting }),
        ...(fields.containerGb !== undefined && { containerGb: fields.containerGb }),
      }),
    ),
  );
const kinds = async (principal: string, ...ids: string[]) =>
  (await ownersOfObjects(deps(), ids, principal)).map(({ kind }) => kind);
const pass = async (days: number) => {
  api.now = new Date(api.now.getTime() + days * DAY_MS);
  await pruneResponses(deps());
};
const rows = async () => {
  const { records } = await api.db
    .selectFrom('stored_responses')
    .select(({ fn }) => fn.countAll<number>().as('records'))
    .executeTakeFirstOrThrow();
  const { hashes } = await api.db
    .selectFrom('stored_objects')
    .select(({ fn }) => fn.countAll<number>().as('hashes'))
    .executeTakeFirstOrThrow();
  return [Number(records), Number(hashes)];
};

describe('the book of stored objects', () => {
  it('keeps the largest container of each object, whoever else names it', async () => {
    const sizes = async (principal: string) =>
      (await ownersOfObjects(deps(), ['resp_1', 'msg_1'], principal)).map((owner) =>
        owner.kind === 'own' ? owner.containerGb : owner.kind,
      );
    await record({ containerGb: 16 });
    expect(await sizes('ada')).toEqual([16, 16]);
    await record({ containerGb: 4 });
    await record({ containerGb: 64, principalId: 'bob' });
    expect([await sizes('ada'), await sizes('bob')]).toEqual([
      [16, 16],
      ['foreign', 'foreign'],
    ]);
    await record({ containerGb: 64 });
    expect(await sizes('ada')).toEqual([64, 64]);
    // A number that no vendor has does not make the record fail.
    await record({ responseId: 'resp_2', objectIds: ['msg_2'], containerGb: 1_000_000 });
    expect(await kinds('ada', 'resp_2', 'msg_2')).toEqual(['own', 'own']);
  });

  it('knows a response and all that its answer named, at its connector', async () => {
    await record();
    const owned = await ownersOfObjects(deps(), ['msg_1', 'resp_1', 'rs_1', 'msg_2'], 'ada');
    expect(owned).toEqual([
      { kind: 'own', connectorId: 'con_1', containerGb: 0, unfinished: undefined },
      { kind: 'own', connectorId: 'con_1', containerGb: 0, unfinished: undefined },
      { kind: 'own', connectorId: 'con_1', containerGb: 0, unfinished: undefined },
      { kind: 'unknown' },
    ]);
    expect(await kinds('bob', 'msg_1', 'resp_1', 'rs_1', 'msg_2')).toEqual([
      'foreign',
      'foreign',
      'foreign',
      'unknown',
    ]);
  });

  it('stays with the first owner of an id at a connector', async () => {
    await record();
    await record({ principalId: 'bob', responseId: 'resp_2' });
    expect(await kinds('bob', 'resp_2', 'msg_1', 'rs_1')).toEqual(['own', 'foreign', 'foreign']);
    expect(await kinds('ada', 'resp_2', 'msg_1', 'rs_1')).toEqual(['foreign', 'own', 'own']);
    // Another account may have another object under the same id.
    await record({ principalId: 'bob', connectorId: 'con_2' });
    expect(await kinds('bob', 'resp_1', 'msg_1')).toEqual(['own', 'own']);
  });

  it('keeps a response as a hash once its record has expired, still with its owner and connector', async () => {
    await record();
    await pass(89);
    expect(await rows()).toEqual([1, 2]);
    await pass(2);
    expect(await rows()).toEqual([0, 3]);
    expect(await kinds('bob', 'resp_1', 'msg_1')).toEqual(['foreign', 'foreign']);
    expect(await ownersOfObjects(deps(), ['resp_1'], 'ada')).toEqual([
      { kind: 'own', connectorId: 'con_1', containerGb: 0, unfinished: undefined },
    ]);
    await pass(3 * 365 - 95);
    expect(await kinds('bob', 'resp_1', 'msg_1')).toEqual(['foreign', 'foreign']);
  });

  it('forgets a hash when no vendor can have the object, and one of a conversation never', async () => {
    await record();
    await record({ responseId: 'resp_2', objectIds: ['conv_1', 'msg_9'], areLasting: true });
    await pass(91);
    await pass(3 * 366);
    expect(await rows()).toEqual([0, 2]);
    expect(await kinds('bob', 'resp_1', 'resp_2', 'msg_1', 'conv_1', 'msg_9')).toEqual([
      'unknown',
      'unknown',
      'unknown',
      'foreign',
      'foreign',
    ]);
  });

  it('keeps a hash whoever deletes the record, such as an earlier release', async () => {
    await record({ objectIds: [] });
    await api.db.deleteFrom('stored_responses').execute();
    expect(await kinds('bob', 'resp_1')).toEqual(['foreign']);
  });

  it('records the same objects twice, and in any order at once', async () => {
    const objectIds = Array.from({ length: 50 }, (_, n) => `msg_${n}`);
    await Promise.all(
      Array.from({ length: 8 }, (_, n) =>
        record({ responseId: `resp_${n}`, objectIds: n % 2 ? objectIds : objectIds.toReversed() }),
      ),
    );
    expect(await rows()).toEqual([8, 50]);
  });

  it('takes a bounded number of objects, and refuses to look up more', async () => {
    const objectIds = Array.from({ length: 2_000 }, (_, n) => `msg_${n}`);
    await record({ objectIds: [...objectIds, 'x'.repeat(513), ''] });
    expect(await rows()).toEqual([1, 1_024]);
    await expect(ownersOfObjects(deps(), [...objectIds, ...objectIds], 'ada')).rejects.toMatchObject({
      code: 'too_many_objects',
    });
  });
});
