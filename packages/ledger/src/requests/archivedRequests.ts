import {
  type Archive,
  type ArchivedFile,
  COST,
  type DuckSql,
  duck,
  parseRow,
  READ_VALUES,
} from '@weighbridge/archive';
import type { Database } from '@weighbridge/database';
import { decimalUsd, idTimeMs, isId } from '@weighbridge/domain';
import { type AdmissionRange, type ArchiveView, acrossArchive, within } from '../archive/archivedFiles.ts';
import {
  type Archived,
  allOf,
  archivedFilter,
  archivedMember,
  conditionsOf,
  oneOf,
} from '../spend/archivedFilter.ts';
import type {
  AttemptRow,
  FoundAttempt,
  RequestFilter,
  RequestPosition,
  Searched,
  SearchPage,
} from './attemptsSql.ts';

const NIL_ID = '00000000-0000-0000-0000-000000000000';
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** A request is admitted soon after it got its id, unless a large body comes slowly, or a clock was set. */
const AROUND_ID_MS = [10 * MINUTE_MS, DAY_MS];
const ALL: AdmissionRange = { from: new Date(0), to: new Date(8.64e15) };
/** After this time, no further part of the archive is searched. */
const SEARCH_MS = 2_000;
const MAX_ROWS_OF_REQUESTS = 20_000;

/** The rows of requests that the archive has. */
export async function readArchivedRows(
  { archive, files }: ArchiveView,
  requestIds: readonly string[],
): Promise<AttemptRow[]> {
  const rows: AttemptRow[] = [];
  let missing = requestIds;
  for (const around of AROUND_ID_MS) {
    if (missing.length === 0) break;
    const ranges = missing.map((id) => rangeOf(id, around));
    const whole = {
      from: new Date(Math.min(...ranges.map(({ from }) => Number(from)))),
      to: new Date(Math.max(...ranges.map(({ to }) => Number(to)))),
    };
    const near = (await files(whole)).filter((file) =>
      ranges.some((range) => within([file], range).length > 0),
    );
    const admitted = duck.join(ranges.map(isAdmittedIn), duck` OR `);
    const wanted = duck`request_id IN ${oneOf(missing)} AND (${admitted})`;
    const found = await archive.rows(
      near,
      (relation) => duck`SELECT ${READ_VALUES} FROM ${relation} WHERE ${wanted}`,
      MAX_ROWS_OF_REQUESTS,
    );
    rows.push(...found.map((row) => parseRow(row) as AttemptRow));
    const known = new Set(rows.map((row) => row.request_id));
    missing = missing.filter((id) => !known.has(id));
  }
  return rows;
}

/** An attempt with its corrections, as far as they are in the archive. */
export interface ArchivedAttempt {
  readonly attempt: AttemptRow;
  readonly corrections: readonly AttemptRow[];
}

/** An attempt of a request; undefined if the archive has none of this id. */
export async function findArchivedAttempt(
  db: Database,
  archive: Archive | undefined,
  { requestId, eventId }: { readonly requestId: string; readonly eventId: string },
): Promise<ArchivedAttempt | undefined> {
  const rows = await acrossArchive(db, archive, async (view) =>
    view ? await readArchivedRows(view, [requestId]) : [],
  );
  const attempt = rows.find((row) => row.event_id === eventId);
  return attempt && { attempt, corrections: rows.filter(({ corrects }) => corrects === eventId) };
}

/** When a request may have been admitted, by the time in its id. */
function rangeOf(requestId: string, aroundMs: number): AdmissionRange {
  if (!isId('req', requestId)) return ALL;
  const at = idTimeMs(requestId);
  return { from: new Date(at - aroundMs), to: new Date(at + aroundMs) };
}

function isAdmittedIn(range: AdmissionRange): DuckSql {
  if (range === ALL) return duck`true`;
  return duck`(admitted_at >= ${range.from} AND admitted_at < ${range.to})`;
}

/**
 * A page of the list of requests, of what `searchHot` finds in Postgres and of what the archive has. A request whose attempts are in
 * both is listed at its first one, as if all were in one place.
 */
export async function searchAcross(
  db: Database,
  view: ArchiveView | undefined,
  filter: RequestFilter,
  page: SearchPage,
  searchHot: (page: SearchPage) => Promise<Searched>,
): Promise<Searched> {
  const files = view ? await view.files(searchedRange(filter)) : [];
  if (!view || files.length === 0) return await searchHot(page);
  const archived = {
    view,
    files,
    filter: await archivedFilter(db, filter),
    until: performance.now() + SEARCH_MS,
  };
  const attempts: FoundAttempt[] = [];
  for (let after = page.after; ; ) {
    const wanted = page.limit - attempts.length;
    const hot = await searchHot({ after, limit: wanted });
    const hotEnd = hot.attempts.length >= wanted ? positionOf(hot.attempts.at(-1)) : hot.searchedTo;
    const cold = await searchArchive(archived, { after, limit: wanted, downTo: hotEnd });
    const searchedTo = later(hot.searchedTo, cold.searchedTo);
    const merged = [...hot.attempts, ...cold.attempts]
      .sort((a, b) => (isBefore(positionOf(a), positionOf(b)) ? -1 : 1))
      .filter((one) => !searchedTo || isBefore(positionOf(one), searchedTo))
      .slice(0, wanted);
    const repeated = await alreadyArchived(archived, hot.attempts);
    attempts.push(...merged.filter((one) => !repeated.has(one)));
    const last = merged.at(-1);
    if (merged.length < wanted || !last || attempts.length >= page.limit) return { attempts, searchedTo };
    after = positionOf(last);
  }
}

interface ArchivedSearch {
  readonly view: ArchiveView;
  readonly files: readonly ArchivedFile[];
  readonly filter: Archived<RequestFilter>;
  readonly until: number;
}

/**
 * Searches from the newest, in parts that are each a file's, more or less: the next one begins at the latest beginning of a file. All
 * attempts of a request have one time of admission, so they are in one part.
 */
async function searchArchive(
  { view, files, filter, until }: ArchivedSearch,
  page: SearchPage & { readonly downTo: RequestPosition | undefined },
): Promise<Searched> {
  const { from, to } = searchedRange(filter);
  const lowest = page.downTo && page.downTo.admittedAt > from ? page.downTo.admittedAt : from;
  const attempts: FoundAttempt[] = [];
  let upper = page.after && page.after.admittedAt < to ? new Date(Number(page.after.admittedAt) + 1) : to;
  while (upper > lowest) {
    const rest = within(files, { from: lowest, to: upper });
    if (rest.length === 0) break;
    const latest = Math.max(...rest.map(({ firstAdmittedAt }) => Number(firstAdmittedAt)));
    const part = { from: new Date(Math.max(Number(lowest), latest)), to: upper };
    const wanted = { after: page.after, limit: page.limit - attempts.length };
    attempts.push(...(await firstAttempts(view, within(rest, part), { ...filter, ...part }, wanted)));
    if (attempts.length >= page.limit) return { attempts, searchedTo: undefined };
    upper = part.from;
    if (performance.now() >= until && upper > lowest) {
      return { attempts, searchedTo: { admittedAt: upper, eventId: NIL_ID } };
    }
  }
  return { attempts, searchedTo: undefined };
}

async function firstAttempts(
  { archive }: ArchiveView,
  files: readonly ArchivedFile[],
  filter: Archived<RequestFilter>,
  { after, limit }: SearchPage,
): Promise<FoundAttempt[]> {
  const wanted = attemptsThatMatch(filter);
  const isAfter = after
    ? duck`admitted_at < ${after.admittedAt} OR (admitted_at = ${after.admittedAt} AND min(event_id) < ${after.eventId})`
    : duck`true`;
  const rows = await archive.rows(
    files,
    (relation) => duck`
      SELECT request_id, epoch_ms(admitted_at) AS admitted_ms, min(event_id) AS event_id
      FROM ${relation} WHERE ${wanted}
      GROUP BY request_id, admitted_at HAVING ${isAfter}
      ORDER BY admitted_at DESC, min(event_id) DESC LIMIT ${limit}`,
    limit,
  );
  return rows.map((row) => ({
    request_id: String(row.request_id),
    admitted_at: new Date(Number(row.admitted_ms)),
    event_id: String(row.event_id),
  }));
}

/** Those found in Postgres whose request has an earlier attempt in the archive that matches too. */
async function alreadyArchived(
  { view, files, filter }: ArchivedSearch,
  hot: readonly FoundAttempt[],
): Promise<ReadonlySet<FoundAttempt>> {
  const last = Math.max(...files.map(({ lastAdmittedAt }) => Number(lastAdmittedAt)));
  const old = hot.filter(({ admitted_at }) => Number(admitted_at) <= last);
  if (old.length === 0) return new Set();
  const times = old.map(({ admitted_at }) => Number(admitted_at));
  const range = { from: new Date(Math.min(...times)), to: new Date(Math.max(...times) + 1) };
  const wanted = attemptsThatMatch({ ...filter, ...range });
  const ids = oneOf(old.map(({ request_id }) => request_id));
  const rows = await view.archive.rows(
    within(files, range),
    (relation) => duck`SELECT DISTINCT request_id FROM ${relation}
      WHERE ${wanted} AND request_id IN ${ids}`,
    old.length,
  );
  const archived = new Set(rows.map((row) => row.request_id));
  return new Set(old.filter(({ request_id }) => archived.has(request_id)));
}

/** What a filter can match: a single request was admitted about when its id was made. */
function searchedRange({
  from,
  to,
  requestId,
}: Pick<RequestFilter, 'from' | 'to' | 'requestId'>): AdmissionRange {
  if (requestId === undefined || !isId('req', requestId)) return { from, to };
  const near = rangeOf(requestId, DAY_MS);
  return { from: near.from > from ? near.from : from, to: near.to < to ? near.to : to };
}

function positionOf(found: FoundAttempt): RequestPosition;
function positionOf(found: FoundAttempt | undefined): RequestPosition | undefined;
function positionOf(found: FoundAttempt | undefined): RequestPosition | undefined {
  return found && { admittedAt: found.admitted_at, eventId: found.event_id };
}

/** Whether a position is before another one in the list, which has the newest first. */
function isBefore(a: RequestPosition, b: RequestPosition): boolean {
  const difference = Number(b.admittedAt) - Number(a.admittedAt);
  return difference === 0 ? a.eventId > b.eventId : difference < 0;
}

/** The one that is nearer to the beginning of the list. */
function later(a: RequestPosition | undefined, b: RequestPosition | undefined): RequestPosition | undefined {
  if (!a || !b) return a ?? b;
  return isBefore(a, b) ? a : b;
}

/** The filter as conditions on rows of the archive, as `conditions` in attemptsSql.ts says them of `usage_events`. */
function attemptsThatMatch(filter: Archived<RequestFilter>): DuckSql {
  const wanted = [conditionsOf(filter), duck`kind = 'attempt'`];
  const { requestId, sessionSha256, outcome, minCost, estimated, priceIncomplete } = filter;
  if (requestId !== undefined) wanted.push(duck`request_id = ${requestId}`);
  if (sessionSha256 !== undefined) {
    wanted.push(duck`${archivedMember('attribution', ['session_sha256'])} = ${sessionSha256}`);
  }
  if (outcome !== undefined) wanted.push(duck`outcome = ${outcome}`);
  if (minCost !== undefined)
    wanted.push(duck`${duck.column(COST)} >= ${decimalUsd(minCost)}::DECIMAL(38, 9)`);
  if (estimated !== undefined) wanted.push(duck`estimated = ${estimated}`);
  if (priceIncomplete !== undefined) {
    const has = duck`coalesce(json_exists(details, '/unpriced'), false)`;
    wanted.push(priceIncomplete ? has : duck`NOT ${has}`);
  }
  return allOf(wanted);
}
