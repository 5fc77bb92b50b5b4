import type { ResolvedKey } from '@weighbridge/state';
import { describe, expect, it } from 'vitest';
import type { NewObjects } from '../control/objectOwners.ts';
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
const OTHER = event({ type: 'response.heartbeat' });
const DELTA = event({ type: 'response.output_text.delta', item_id: 'ci_1', delta: 'x' });

/** A stream, the records of its owner, and what the client got at each. */
function open(isStored: boolean, fails = false) {
  const written: string[] = [];
  const records: { ids: readonly string[]; areLasting: boolean; written: number }[] = [];
  let recording: Promise<void> | undefined;
  const record = async ({ responseId, objectIds, areLasting }: NewObjects) => {
    records.push({ ids: [responseId, ...objectIds], areLasting, written: written.length });
    if (fails) throw new Error('no control plane');
    await recording;
  };
  const ownership = new AnswerOwnership(
    { record, recordSoon: (objects) => record(objects).catch(() => {}) },
    {
      isStored,
      namesResponse: true,
      connectorId: 'con_1',
      containerGb: 0,
      key: {} as ResolvedKey,
      unfinished: undefined,
    },
  );
  const tap = new StreamTap({ format: RESPONSES.responseFormat, hideUsage: false });
  const hold = new OwnershipHold(tap, ownership);
  let held = 0;
  const client = {
    memory: {
      take: (bytes: number) => {
        held += bytes;
      },
      release: (bytes: number) => {
        held -= bytes;
      },
    },
    write: (bytes: Buffer) => void written.push(bytes.toString()),
    drop: () => written.push('dropped'),
  } as unknown as ClientConnection;
  const push = (bytes: Buffer) => hold.write(tap.push(bytes), client);
  /** Each in a turn of its own. */
  const send = async (bytes: Buffer) => {
    await push(bytes);
    await hold.saved();
  };
  const block = (until: Promise<void> | undefined) => {
    recording = until;
  };
  return { written, records, hold, push, send, block, held: () => held };
}

describe('a stream', () => {
  it.each([true, false])('names nothing that is not recorded (stored: %s)', async (isStored) => {
    const { written, records, send, held } = open(isStored);
    for (const bytes of [CREATED, ITEM, DELTA, ITEM, DELTA]) await send(bytes);
    expect(written).toEqual([CREATED, ITEM, DELTA, ITEM, DELTA].map(String));
    expect(records).toEqual([
      { ids: ['resp_1', 'conv_1'], areLasting: true, written: 0 },
      { ids: ['resp_1', 'ci_1', 'cntr_1'], areLasting: true, written: 1 },
    ]);
    expect(held()).toBe(0);
  });

  it('is recorded by one write for all that arrives in a turn, before the first of it is sent', async () => {
    const { written, records, push, hold } = open(true);
    const items = Array.from({ length: 200 }, (_, at) => {
      const item = { id: `msg_${at}`, type: 'message' };
      return event({ type: 'response.output_item.added', item });
    });
    for (const bytes of [CREATED, ...items, OTHER]) push(bytes);
    expect([records, written]).toEqual([[], []]);
    await hold.saved();
    expect(records.map(({ ids }) => ids.length)).toEqual([2 + 200]);
    expect(written.join('')).toBe([CREATED, ...items, OTHER].join(''));
  });

  it('is recorded by one more write for all that arrives during a write', async () => {
    const { written, records, push, hold, block } = open(true);
    let release = () => {};
    block(
      new Promise((resolve) => {
        release = resolve;
      }),
    );
    push(CREATED);
    await new Promise(setImmediate);
    for (const at of [1, 2, 3]) push(event({ type: 'response.output_item.added', item: { id: `rs_${at}` } }));
    push(DELTA);
    await new Promise(setImmediate);
    expect([records.length, written]).toEqual([1, []]);
    release();
    await hold.saved();
    expect(records.map(({ ids }) => ids.slice(1))).toEqual([['conv_1'], ['rs_1', 'rs_2', 'rs_3', 'ci_1']]);
    expect(written[0]).toBe(String(CREATED));
  });

  it('makes its vendor wait once enough waits for a record', async () => {
    const { push, hold } = open(true);
    push(CREATED);
    const waits = push(Buffer.from(`: ${'x'.repeat(70_000)}\n\n`));
    expect(waits).toBe(hold.saved());
    await waits;
  });

  it('that is stored is held until it names its id, and dropped if that is not recorded', async () => {
    const held = open(true);
    await held.send(OTHER);
    expect(held.written).toEqual([]);
    await held.send(CREATED);
    expect(held.written).toEqual([`${OTHER}${CREATED}`]);
    const failing = open(true, true);
    await failing.send(CREATED);
    expect(failing.written).toEqual(['dropped']);
    expect(failing.hold.failure).toBeInstanceOf(Error);
    expect(failing.held()).toBe(0);
  });

  it('that is not stored is passed on, and also if the control plane is away', async () => {
    const { written, send, hold, records } = open(false, true);
    for (const bytes of [OTHER, CREATED, ITEM]) await send(bytes);
    expect(written).toEqual([OTHER, CREATED, ITEM].map(String));
    expect(hold.failure).toBeUndefined();
    // The container is there in any case; the item is in a conversation.
    expect(records[1]?.ids).toEqual(['resp_1', 'ci_1', 'cntr_1']);
  });

  it('that is not stored claims its items, and owns what its tools made', async () => {
    const { send, records } = open(false);
    await send(event({ type: 'response.created', response: { id: 'resp_1' } }));
    const cited = { type: 'container_file_citation', container_id: 'cntr_1', file_id: 'cfile_1' };
    await send(event({ type: 'response.output_text.annotation.added', item_id: 'msg_1', annotation: cited }));
    expect(records.at(-1)?.ids).toEqual(['resp_1', '~msg_1', 'cntr_1', 'cfile_1']);
  });

  it('that names an item in its parts alone is recorded before them', async () => {
    const { send, records, written } = open(true);
    for (const bytes of [CREATED, DELTA, DELTA]) await send(bytes);
    expect(records.map(({ ids, written: at }) => [ids.slice(1), at])).toEqual([
      [['conv_1'], 0],
      [['ci_1'], 1],
    ]);
    expect(written).toHaveLength(3);
  });

  it('that names more objects than are recorded is not passed on', async () => {
    const { send, written, hold } = open(true);
    const output = Array.from({ length: 2_049 }, (_, at) => ({ id: `msg_${at}` }));
    await send(event({ type: 'response.completed', response: { id: 'resp_1', output } }));
    expect(written).toEqual(['dropped']);
    expect(hold.failure).toMatchObject({ code: 'response_not_recorded' });
  });
});
