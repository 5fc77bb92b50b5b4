import { describe, expect, it } from 'vitest';
import type { NewObjects } from '../control/objectOwners.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import { RESPONSES } from '../formats/operation.ts';
import { StreamTap } from '../formats/streamTap.ts';
import { AnswerOwnership } from './answerOwnership.ts';
import type { ClientConnection } from './clientConnection.ts';
import { OwnershipHold } from './ownershipHold.ts';

const event = (data: object) => Buffer.from(`data: ${JSON.stringify(data)}\n\n`);
const CREATED = event({
  type: 'response.created',
  response: { id: 'resp_1', conversation: { id: 'conv_1' } },
});
const ITEM = event({ type: 'response.output_item.added', item: { id: 'ci_1', container_id: 'cntr_1' } });
const DELTA = event({ type: 'response.output_text.delta', item_id: 'ci_1', delta: 'x' });

/** A stream whose records are made one after another, and what the client got at each. */
function open(isStored: boolean, fails = false) {
  const written: string[] = [];
  const records: { ids: readonly string[]; areLasting: boolean; written: number }[] = [];
  const record = async ({ responseId, objectIds, areLasting }: NewObjects) => {
    records.push({ ids: [responseId, ...objectIds], areLasting, written: written.length });
    if (fails) throw new Error('no control plane');
  };
  const ownership = new AnswerOwnership(
    { record, recordSoon: (objects) => record(objects).catch(() => {}) },
    { isStored, namesResponse: true, connectorId: 'con_1', key: {} as ResolvedKey, unfinished: undefined },
  );
  const tap = new StreamTap({ format: RESPONSES.responseFormat, hideUsage: false });
  const hold = new OwnershipHold(tap, ownership);
  const client = {
    memory: { take() {}, release() {} },
    write: (bytes: Buffer) => void written.push(bytes.toString()),
    drop: () => written.push('dropped'),
  } as unknown as ClientConnection;
  return { written, records, hold, send: async (bytes: Buffer) => await hold.write(tap.push(bytes), client) };
}

describe('a stream', () => {
  it.each([true, false])('names nothing that is not recorded (stored: %s)', async (isStored) => {
    const { written, records, send } = open(isStored);
    for (const bytes of [CREATED, ITEM, DELTA, ITEM, DELTA]) await send(bytes);
    expect(written).toEqual([CREATED, ITEM, DELTA, ITEM, DELTA].map(String));
    expect(records).toEqual([
      { ids: ['resp_1', 'conv_1'], areLasting: true, written: 0 },
      { ids: ['resp_1', 'ci_1', 'cntr_1'], areLasting: true, written: 1 },
    ]);
  });

  it('that is stored is held until it names its id, and dropped if that is not recorded', async () => {
    const held = open(true);
    await held.send(DELTA);
    expect(held.written).toEqual([]);
    await held.send(CREATED);
    expect(held.written).toEqual([`${DELTA}${CREATED}`]);
    const failing = open(true, true);
    await failing.send(CREATED);
    expect(failing.written).toEqual(['dropped']);
    expect(failing.hold.failure).toBeInstanceOf(Error);
  });

  it('that is not stored is passed on at once, and also if the control plane is away', async () => {
    const { written, send, hold } = open(false, true);
    for (const bytes of [DELTA, CREATED, ITEM]) await send(bytes);
    expect(written).toEqual([DELTA, CREATED, ITEM].map(String));
    expect(hold.failure).toBeUndefined();
  });
});
