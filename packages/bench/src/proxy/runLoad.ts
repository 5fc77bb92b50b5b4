import { quantiles } from '../shared/quantiles.ts';
import { type Connection, openConnection } from './connection.ts';
import type { LoadOrder, LoadResult } from './loadOrder.ts';
import { startTicks } from './ticks.ts';
import { requestBody } from './workload.ts';

/** A tick comes this much before a request is due; the rest of the time passes busily, since no timer is that exact. */
const EARLY_MS = 0.1;
const MIN_TICK_MS = 0.2;
/** The thread of the ticks needs this long to start; the first request is due afterwards. */
const TICKS_READY_MS = 100;

/** How long responses may take after the last request was due. */
const DRAIN_MS = 60_000;

/**
 * Loads one contender. Rejects at the first wrong response. Each connection gets one response before the clock starts.
 */
export async function runLoad(order: LoadOrder): Promise<LoadResult> {
  const { workload, connections, url } = order;
  const body = requestBody(workload, order.model);
  const heads = order.tokens.map((token) => requestHead(order, token, body.length));
  let sent = 0;
  const send = (connection: Connection, since: number) => {
    connection.send(heads[sent++ % heads.length] ?? Buffer.alloc(0), body, since);
  };
  let onResponse: (connection: Connection) => void = () => {};
  let onFailure: (error: Error) => void = () => {};
  const failure = new Promise<never>((_, reject) => {
    onFailure = reject;
  });
  // Each race below reports the rejection.
  failure.catch(() => {});
  const events = { onResponse: (connection: Connection) => onResponse(connection), onFailure };
  const listen = (listener: typeof onResponse) => {
    onResponse = listener;
  };
  const open: Connection[] = [];
  const answered: number[] = [];
  const firstBytes: number[] = [];
  const record = ({ since, firstByteAt }: Connection, now: number) => {
    answered.push(now - since);
    firstBytes.push(firstByteAt - since);
  };
  try {
    for (let at = 0; at < connections; at++) {
      open.push(await openConnection(url, order, events));
    }
    await Promise.race([failure, onceEach(open, send, listen)]);
    const { ms, maxRequests = Number.POSITIVE_INFINITY } = order;
    const load = { open, send, record, ms, maxRequests, listen };
    const { start, late } = await Promise.race([
      failure,
      workload.rate === undefined ? closedLoop(load) : openLoop(load, workload.rate),
    ]);
    return {
      requests: sent,
      measured: answered.length,
      seconds: (performance.now() - start) / 1_000,
      latencyMs: quantiles(answered),
      firstByteMs: quantiles(firstBytes),
      lateMs: quantiles(late),
    };
  } finally {
    for (const connection of open) connection.close();
  }
}

interface Load {
  readonly open: readonly Connection[];
  readonly send: (connection: Connection, since: number) => void;
  readonly record: (connection: Connection, now: number) => void;
  readonly listen: (onResponse: (connection: Connection) => void) => void;
  readonly ms: number;
  readonly maxRequests: number;
}

interface Ended {
  /** When the clock started. */
  readonly start: number;
  /** At a rate: how much later than due each request was sent. */
  readonly late: readonly number[];
}

function requestHead({ url, path, headers }: LoadOrder, token: string, length: number): Buffer {
  const lines = [
    `POST ${path} HTTP/1.1`,
    `host: ${new URL(url).host}`,
    'content-type: application/json',
    `authorization: Bearer ${token}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    `content-length: ${length}`,
  ];
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`);
}

async function onceEach(
  open: readonly Connection[],
  send: Load['send'],
  listen: Load['listen'],
): Promise<void> {
  await new Promise<void>((resolve) => {
    let missing = open.length;
    listen(() => {
      if (--missing === 0) resolve();
    });
    for (const connection of open) send(connection, performance.now());
  });
}

/** Every connection sends its next request when it has the response to the last. */
async function closedLoop(load: Load): Promise<Ended> {
  const { open, send, record, listen, ms, maxRequests } = load;
  const start = performance.now();
  let begun = open.length;
  await new Promise<void>((resolve) => {
    let busy = open.length;
    listen((connection) => {
      const now = performance.now();
      record(connection, now);
      if (now - start < ms && begun < maxRequests) {
        begun++;
        send(connection, now);
      } else if (--busy === 0) resolve();
    });
    for (const connection of open) send(connection, performance.now());
  });
  return { start, late: [] };
}

function waitUntil(time: number): number {
  let now = performance.now();
  while (now < time) now = performance.now();
  return now;
}

/** Requests are due at a fixed rate. If no connection is free, a request waits, and its latency counts from when it was due. */
async function openLoop({ open, send, record, listen, ms }: Load, rate: number): Promise<Ended> {
  const start = performance.now() + TICKS_READY_MS;
  const total = Math.max(1, Math.floor((ms / 1_000) * rate));
  const dueAt = (request: number) => start + (request / rate) * 1_000;
  const late: number[] = [];
  const idle = [...open];
  let begun = 0;
  let ended = 0;
  const ticks = startTicks(Math.max(MIN_TICK_MS, 1_000 / rate), start - EARLY_MS);
  let timer: NodeJS.Timeout | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      const sendDue = () => {
        while (begun < total) {
          if (dueAt(begun) - performance.now() > EARLY_MS) return;
          const connection = idle.pop();
          if (!connection) return;
          const now = waitUntil(dueAt(begun));
          late.push(now - dueAt(begun));
          send(connection, dueAt(begun));
          begun++;
        }
      };
      listen((connection) => {
        record(connection, performance.now());
        idle.push(connection);
        ended++;
        if (ended === total) resolve();
        else sendDue();
      });
      ticks.onTick(sendDue);
      timer = setTimeout(
        () => reject(new Error(`${ended} of ${total} requests at ${rate}/s were answered in time`)),
        TICKS_READY_MS + ms + DRAIN_MS,
      );
    });
  } finally {
    clearTimeout(timer);
    await ticks.stop();
  }
  return { start, late };
}
