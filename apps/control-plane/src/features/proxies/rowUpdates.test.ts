import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  HelloSchema,
  type Position as SentPosition,
  type WatchResponse,
  WatchResponseSchema,
} from '@weighbridge/contracts';
import { seededRandom } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import { NO_TABLES, RowParts, type Tables, tablesOf, wholeTables, withRows } from '@weighbridge/state';
import { expect, it } from 'vitest';
import { SimulatedTables } from '../../../test/simulatedTables.ts';
import { ChangeFeed } from './changeFeed.ts';
import { type WatchCall, WatchedProxy } from './watchedProxy.ts';

/**
 * Control planes on one database, and proxies that connect to any of them and disconnect, also in the middle of an update. All of it
 * from a seed, without time.
 */

const SEEDS = 20;
const STEPS = 120;

const logger = createLogger('test');
logger.level = 'silent';

function feedOf(database: SimulatedTables): ChangeFeed {
  return new ChangeFeed({
    logger,
    readPosition: async () => database.position,
    readChanges: async (after, limit) => database.readChanges(after, limit),
    readPolicies: async () => [],
    readTables: async () => database.readTables(),
  });
}

/** Applies messages with the functions that a proxy uses. */
class SimulatedProxy {
  readonly takesRows: boolean;
  position: SentPosition | undefined;
  tables: Tables = NO_TABLES;
  updates = 0;
  /** The most parts that one had. */
  parts = 0;
  link:
    | {
        readonly feed: ChangeFeed;
        readonly watched: WatchedProxy;
        readonly sent: WatchResponse[];
        readonly call: { writableNeedDrain: boolean };
      }
    | undefined;
  #parts = new RowParts();

  constructor(takesRows: boolean) {
    this.takesRows = takesRows;
  }

  async connect(feed: ChangeFeed): Promise<void> {
    const sent: WatchResponse[] = [];
    const call = {
      writableNeedDrain: false,
      write: (message: WatchResponse) => {
        // As over a wire.
        sent.push(fromBinary(WatchResponseSchema, toBinary(WatchResponseSchema, message)));
        call.writableNeedDrain = sent.length >= 2;
      },
    };
    const { takesRows, position } = this;
    const hello = create(HelloSchema, { takesRows, ...(position && { resumeFrom: position }) });
    const watched = new WatchedProxy(call as unknown as WatchCall, hello, new Date(0));
    if (!feed.position) await feed.advance();
    this.#parts = new RowParts();
    this.link = { feed, watched, sent, call };
    watched.catchUp(feed);
  }

  #take(parts: number) {
    this.parts = Math.max(this.parts, parts);
    return this.#parts.take(parts);
  }

  /** Applies what arrived, at most `limit` messages. */
  receive(limit: number, check: (proxy: SimulatedProxy) => void): void {
    const { link } = this;
    for (const { message } of link?.sent.splice(0, limit) ?? []) {
      if (message.case === 'rows') this.#parts.add(message.value);
      else if (message.case === 'snapshot') {
        const rows = this.#take(message.value.rowParts);
        this.tables = message.value.rowParts > 0 ? withRows(NO_TABLES, rows) : tablesOf(message.value);
        this.position = message.value.position;
        this.updates++;
        check(this);
      } else if (message.case === 'delta') {
        const rows = this.#take(message.value.rowParts);
        if (!this.position) throw new Error('a delta without a snapshot');
        expect(message.value.fromRevision).toBeLessThanOrEqual(this.position.revision);
        if (message.value.toRevision <= this.position.revision) continue;
        this.tables = message.value.tables ? tablesOf(message.value.tables) : withRows(this.tables, rows);
        this.position = { ...this.position, revision: message.value.toRevision };
        this.updates++;
        check(this);
      } else if (message.case === 'heartbeat') {
        // It vouches for nothing newer than what the proxy has.
        expect(message.value.revision).toBe(this.position?.revision);
      }
    }
    if (!link || link.sent.length >= 2) return;
    link.call.writableNeedDrain = false;
    link.watched.catchUp(link.feed);
  }
}

const inOrder = (tables: Tables) =>
  Object.fromEntries(
    Object.entries(tables).map(([kind, rows]) => [
      kind,
      [...rows.values()].sort((a, b) => (a.id < b.id ? -1 : 1)),
    ]),
  );

it('whatever changes, fails over, disconnects or is cut in parts, a proxy has the tables of a fresh snapshot at the position that it says', async () => {
  const counts = { updates: 0, cuts: 0, parts: 0 };
  for (let seed = 1; seed <= SEEDS; seed++) {
    const next = seededRandom(seed);
    const dice = { below: (limit: number) => Math.floor(next() * limit), chance: (p: number) => next() < p };
    const database = new SimulatedTables();
    const feeds = [feedOf(database), feedOf(database)];
    const proxies = [true, true, true, false].map((takesRows) => new SimulatedProxy(takesRows));
    let step = 0;
    const check = ({ position, tables }: SimulatedProxy) => {
      const rows = position && database.rowsAt(position);
      if (!rows) throw new Error(`seed ${seed}, step ${step}: no such state was committed`);
      const fresh = inOrder(tablesOf(wholeTables(rows.values())));
      expect([seed, step, inOrder(tables)]).toEqual([seed, step, fresh]);
    };
    const turn = async () => {
      for (const feed of feeds) if (dice.chance(0.5)) await feed.advance();
      for (const proxy of proxies) {
        if (!proxy.link) await proxy.connect(feeds[dice.below(2)] as ChangeFeed);
        const { link } = proxy;
        if (link && !link.call.writableNeedDrain) link.watched.catchUp(link.feed);
        const queued = link?.sent.length ?? 0;
        link?.watched.sendHeartbeat({ clock: new Date(0), liveProxies: 1, modelOutputs: [] }, 1n);
        // It prolongs the use of what a proxy has, so there is none for a proxy that lacks something.
        for (const { message } of link?.sent.slice(queued) ?? []) {
          expect(message.value).toMatchObject({ revision: link?.feed.position?.revision });
        }
        proxy.receive(dice.below(4), check);
      }
    };
    for (step = 0; step < STEPS; step++) {
      if (dice.chance(0.5)) database.change(dice);
      if (dice.chance(0.01)) database.failOver();
      if (dice.chance(0.01)) database.prune(dice.below(3));
      for (const proxy of proxies) {
        if (!dice.chance(0.05)) continue;
        counts.cuts += Number((proxy.link?.sent.length ?? 0) > 0);
        proxy.link = undefined;
      }
      await turn();
    }
    // Nothing changes any more: all of them have it.
    for (step = STEPS; step < STEPS + 60; step++) await turn();
    expect([seed, ...proxies.map(({ position }) => position)]).toMatchObject([
      seed,
      ...proxies.map(() => database.position),
    ]);
    for (const { updates, parts } of proxies) {
      counts.updates += updates;
      counts.parts = Math.max(counts.parts, parts);
    }
  }
  expect(counts.updates).toBeGreaterThan(SEEDS * STEPS);
  expect(counts.cuts).toBeGreaterThan(SEEDS);
  expect(counts.parts).toBeGreaterThanOrEqual(3);
});
