import type { Archive } from '@weighbridge/archive';
import type { Database } from '@weighbridge/database';
import { type ArchiveView, acrossArchive } from '../archive/archivedFiles.ts';
import { readArchivedRows, searchAcross } from './archivedRequests.ts';
import {
  type AttemptRow,
  type FoundAttempt,
  isIndexed,
  type RequestFilter,
  type RequestPosition,
  requestsOfKeysSql,
  requestsSql,
  type Searched,
  type SearchPage,
  walkEndSql,
} from './attemptsSql.ts';
import { isSummed, type SummedHour, summedHours } from './summedHours.ts';

/** A request with all its rows in the ledger. Its cost is the sum over both lists. */
export interface LedgerRequest {
  readonly requestId: string;
  /** In the order of their admission. */
  readonly attempts: readonly [AttemptRow, ...AttemptRow[]];
  /** In the order in which they were made. */
  readonly corrections: readonly AttemptRow[];
}

interface ListedRequest extends LedgerRequest {
  readonly position: RequestPosition;
}

export interface FoundRequests {
  readonly requests: readonly ListedRequest[];
  readonly searchedTo: Searched['searchedTo'];
}

/** What bounds a search for attempts that are rare. */
interface SearchBounds {
  /** How many attempts a walk looks at, until the sums of hours are asked where to look. */
  readonly walk: number;
  /** How many attempts a step reads at most, but for those of one hour: where the disk has them, each is a page of it. */
  readonly step: number;
  /** After this time no further step begins. */
  readonly ms: number;
}

const BOUNDS: SearchBounds = { walk: 5_000, step: 500, ms: 120 };
/** A step that took less is followed by a larger one. */
const SHORT_STEP_MS = 25;
/** By how much. */
const STEP_GROWTH = 4;
const HOURS_OF_FIRST_STEP = 4;
const MAX_KEY_HOURS = 2_000;
const NIL_ID = '00000000-0000-0000-0000-000000000000';

/** At most `limit` requests after a position, the newest first; fewer, with `searchedTo`, if a search takes long. */
export async function findRequests(
  db: Database,
  filter: RequestFilter,
  page: SearchPage,
  archive?: Archive,
  bounds = BOUNDS,
): Promise<FoundRequests> {
  return await acrossArchive(db, archive, (view) => findAcross(db, view, filter, page, bounds));
}

async function findAcross(
  db: Database,
  view: ArchiveView | undefined,
  filter: RequestFilter,
  page: SearchPage,
  bounds: SearchBounds,
): Promise<FoundRequests> {
  const { attempts, searchedTo } = await searchAcross(db, view, filter, page, (part) =>
    search(db, filter, part, bounds),
  );
  const requests = await readAcross(
    db,
    view,
    attempts.map((row) => row.request_id),
  );
  return {
    requests: attempts.flatMap((row) => {
      const request = requests.get(row.request_id);
      return request
        ? [{ ...request, position: { admittedAt: row.admitted_at, eventId: row.event_id } }]
        : [];
    }),
    searchedTo,
  };
}

/** Walks the newest attempts. Where a filter wants few of them, the sums of hours then tell which keys have some, and when. */
async function search(
  db: Database,
  filter: RequestFilter,
  { after, limit }: SearchPage,
  bounds: SearchBounds,
): Promise<Searched> {
  if (isIndexed(filter)) {
    const { rows } = await requestsSql(filter, { after, limit }).execute(db);
    return { attempts: rows, searchedTo: undefined };
  }
  const until = performance.now() + bounds.ms;
  const attempts: FoundAttempt[] = [];
  for (let at = after; ; ) {
    const walk = { after: at, limit: limit - attempts.length, walk: bounds.walk };
    attempts.push(...(await requestsSql(filter, walk).execute(db)).rows);
    if (attempts.length >= limit) return { attempts, searchedTo: undefined };
    const [end] = (await walkEndSql(filter, at, bounds.walk).execute(db)).rows;
    if (!end) return { attempts, searchedTo: undefined };
    at = { admittedAt: end.admitted_at, eventId: end.event_id };
    if (isSummed(filter))
      return await searchHours(db, filter, { after: at, limit, attempts }, { step: bounds.step, until });
    if (performance.now() >= until) return { attempts, searchedTo: at };
  }
}

/** Goes on after a walk, with the attempts that it found. */
async function searchHours(
  db: Database,
  filter: RequestFilter,
  found: {
    readonly after: RequestPosition;
    readonly limit: number;
    readonly attempts: readonly FoundAttempt[];
  },
  bounds: Pick<SearchBounds, 'step'> & { readonly until: number },
): Promise<Searched> {
  const { after, limit } = found;
  const attempts = [...found.attempts];
  let searchedTo: RequestPosition | undefined;
  let maxHours = HOURS_OF_FIRST_STEP;
  let maxAttempts = Math.min(limit, bounds.step);
  let step: SummedHour[] = [];
  const take = async () => {
    const start = performance.now();
    const keyHours = step.flatMap(({ hour, keyIds }) => keyIds.map((keyId) => ({ hour, keyId })));
    const wanted = limit - attempts.length;
    attempts.push(...(await requestsOfKeysSql(filter, keyHours, { after, limit: wanted }).execute(db)).rows);
    const last = step.at(-1);
    if (last) searchedTo = { admittedAt: last.hour, eventId: NIL_ID };
    if (performance.now() - start < SHORT_STEP_MS) {
      maxHours *= STEP_GROWTH;
      maxAttempts = Math.min(maxAttempts * STEP_GROWTH, bounds.step);
    }
    step = [];
  };
  // One millisecond later, so that it has the hour that starts at the position.
  const before = new Date(after.admittedAt.getTime() + 1);
  for await (const hour of summedHours(db, filter, before, limit)) {
    if (searchedTo && performance.now() >= bounds.until) return { attempts, searchedTo };
    step.push(hour);
    const isFull = step.length >= maxHours || sum(step, ({ keyIds }) => keyIds.length) >= MAX_KEY_HOURS;
    if (!isFull && sum(step, (one) => one.attempts) < maxAttempts) continue;
    await take();
    if (attempts.length >= limit) return { attempts, searchedTo: undefined };
  }
  if (step.length > 0) await take();
  return { attempts, searchedTo: undefined };
}

const sum = (step: readonly SummedHour[], of: (hour: SummedHour) => number): number =>
  step.reduce((total, hour) => total + of(hour), 0);

/** A request with all its rows; undefined if the ledger has no attempt of it. */
export async function findRequest(
  db: Database,
  requestId: string,
  archive?: Archive,
): Promise<LedgerRequest | undefined> {
  return (await readRequests(db, [requestId], archive)).get(requestId);
}

/** Requests with all their rows, by id. */
export async function readRequests(
  db: Database,
  requestIds: readonly string[],
  archive?: Archive,
): Promise<Map<string, LedgerRequest>> {
  return await acrossArchive(db, archive, (view) => readAcross(db, view, requestIds));
}

async function readAcross(
  db: Database,
  view: ArchiveView | undefined,
  requestIds: readonly string[],
): Promise<Map<string, LedgerRequest>> {
  if (requestIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('usage_events')
    .selectAll()
    .where('request_id', 'in', [...requestIds])
    .execute();
  const archived = view ? await readArchivedRows(view, requestIds) : [];
  if (archived.length > 0) rows.push(...archived);
  rows.sort(byAdmission);
  const ofRequest = new Map<string, { attempts: AttemptRow[]; corrections: AttemptRow[] }>();
  for (const row of rows) {
    const request = ofRequest.get(row.request_id) ?? { attempts: [], corrections: [] };
    (row.kind === 'correction' ? request.corrections : request.attempts).push(row);
    ofRequest.set(row.request_id, request);
  }
  return new Map(
    [...ofRequest].flatMap(
      ([
        requestId,
        {
          attempts: [first, ...others],
          corrections,
        },
      ]) => {
        // The month of its attempts may have been dropped.
        if (!first) return [];
        corrections.sort((a, b) => (a.event_id < b.event_id ? -1 : 1));
        return [[requestId, { requestId, attempts: [first, ...others] as const, corrections }]];
      },
    ),
  );
}

function byAdmission(a: AttemptRow, b: AttemptRow): number {
  return Number(a.admitted_at) - Number(b.admitted_at) || (a.event_id < b.event_id ? -1 : 1);
}
