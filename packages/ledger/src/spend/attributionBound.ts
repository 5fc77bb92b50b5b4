import { createHash } from 'node:crypto';
import { arrayLiteral, type Tx } from '@weighbridge/database';
import { type RawBuilder, sql } from 'kysely';
import { CALLERS_DIMENSIONS, type CallersDimension, valuesText } from './usageSums.ts';

/** What values beyond the bound count under, in the sums by hour and day. */
export const OTHER = '(other)';
/** How many combinations of callers' values have sums of their own, for each key and day. */
export const MAX_COMBINATIONS = 1_000;
/** Of them, for combinations without a user: where there are many users, only these become `(other)` then. One in so many. */
const RESERVED_PART = 10;

/** What of the combinations without sums of their own counts under `(other)`: nothing yet, their users, all their values. */
type Folding = 0 | 1 | 2;
const NOTHING_FOLDED = 0;
const USERS_FOLDED = 1;
const ALL_FOLDED = 2;

export type Values = Readonly<Record<CallersDimension, string | null>>;

/** What callers gave with usage of a key on a day (UTC). */
export interface Attribution {
  /** When the day starts, in Unix milliseconds. */
  readonly day: number;
  readonly keyId: string;
  readonly values: Values;
}

/** A key's day. Neither number ever goes down, and no combination is taken away: what once counted under `(other)` always does. */
export interface AttributionDay {
  combinations: number;
  folding: Folding;
  /** The combinations with sums of their own, of those that were looked up, by `valuesText`. */
  readonly own: Set<string>;
}

/**
 * The values under which usage counts, in the order given. New combinations get sums of their own while there is room, whoever writes
 * at the same time. Locks the keys' days on which combinations are new; a day without room is not locked.
 */
export async function boundAttributions(
  tx: Tx,
  attributions: readonly Attribution[],
  maxCombinations = MAX_COMBINATIONS,
): Promise<Values[]> {
  const combinations = distinct(attributions.filter(({ values }) => !isFolded(values)));
  if (combinations.length === 0) return attributions.map(({ values }) => values);
  let days = await lookUp(tx, combinations);
  const isOpen = ({ values, ...of }: Attribution) => !isDecided(dayIn(days, of), values);
  const open = combinations.filter(isOpen);
  if (open.length > 0) {
    // 1. From here on, nobody else adds combinations to these days.
    const changed = await lockDays(tx, days, open);
    // 2. What was added meanwhile is seen now.
    if (changed.length > 0) days = merged(days, await lookUp(tx, changed));
    // 3. The rest gets what room there is.
    const added = open.flatMap((one) =>
      addCombination(dayIn(days, one), one.values, maxCombinations).map((values) => ({ ...one, values })),
    );
    await writeDays(tx, days, open, added);
  }
  return attributions.map((one) => countedAs(dayIn(days, one), one.values));
}

/** The values that a combination counts under. `foldedSql` says the same in SQL. */
export function countedAs(day: AttributionDay, values: Values): Values {
  if (day.own.has(valuesText(values)) || day.folding === NOTHING_FOLDED) return values;
  const rest = withoutUser(values);
  return day.folding === ALL_FOLDED && !day.own.has(valuesText(rest)) ? folded(rest) : rest;
}

/** Gives a combination room on a day, or lets it count under `(other)`; returns the combination that was added, if one was. */
export function addCombination(day: AttributionDay, values: Values, maxCombinations: number): Values[] {
  if (isDecided(day, values)) return [];
  const reserved = Math.floor(maxCombinations / RESERVED_PART);
  const max = hasUser(values) ? maxCombinations - reserved : maxCombinations;
  const mayAdd = day.folding === NOTHING_FOLDED || (day.folding === USERS_FOLDED && !hasUser(values));
  if (mayAdd && day.combinations < max) {
    day.combinations++;
    day.own.add(valuesText(values));
    return [values];
  }
  if (!hasUser(values)) day.folding = ALL_FOLDED;
  else if (day.folding === NOTHING_FOLDED) day.folding = USERS_FOLDED;
  return addCombination(day, withoutUser(values), maxCombinations);
}

/** Whether it is known what a combination counts under, and stays so. */
function isDecided(day: AttributionDay, values: Values): boolean {
  if (isFolded(values) || day.folding === ALL_FOLDED || day.own.has(valuesText(values))) return true;
  return day.folding === USERS_FOLDED && hasUser(values) && isDecided(day, withoutUser(values));
}

/** Whether all values that were given are `(other)`. */
function isFolded(values: Values): boolean {
  return CALLERS_DIMENSIONS.every((name) => values[name] === null || values[name] === OTHER);
}

function hasUser({ user }: Values): boolean {
  return user !== null && user !== OTHER;
}

function withoutUser(values: Values): Values {
  return hasUser(values) ? { ...values, user: OTHER } : values;
}

function folded(values: Values): Values {
  const other = CALLERS_DIMENSIONS.map((name) => [name, values[name] === null ? null : OTHER]);
  return Object.fromEntries(other) as Values;
}

const dayName = ({ day, keyId }: Pick<Attribution, 'day' | 'keyId'>) => `${day}/${keyId}`;

function dayIn(
  days: ReadonlyMap<string, AttributionDay>,
  of: Pick<Attribution, 'day' | 'keyId'>,
): AttributionDay {
  return days.get(dayName(of)) ?? { combinations: 0, folding: NOTHING_FOLDED, own: new Set() };
}

/** Each combination once, in the order of their days and keys. */
function distinct(attributions: readonly Attribution[]): Attribution[] {
  const once = new Map(attributions.map((one) => [`${dayName(one)}\0${valuesText(one.values)}`, one]));
  return [...once].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
}

/** The days of some combinations, with those of them that have sums of their own, also without their users. */
async function lookUp(tx: Tx, some: readonly Attribution[]): Promise<Map<string, AttributionDay>> {
  const wanted = distinct(some.flatMap((one) => [one, { ...one, values: withoutUser(one.values) }]));
  const { rows } = await sql<{ is_own: boolean; combinations: number | null; folding: Folding | null }>`
    SELECT own.is_own, of_day.combinations, of_day.folding
    FROM unnest(${columns(wanted)}) WITH ORDINALITY AS wanted (day, key_id, attribution_sha256, n)
    LEFT JOIN LATERAL (
      SELECT true AS is_own FROM usage_attributions AS known
      WHERE known.day = wanted.day AND known.key_id = wanted.key_id
        AND known.attribution_sha256 = wanted.attribution_sha256
      LIMIT 1
    ) AS own ON true
    LEFT JOIN LATERAL (
      SELECT combinations, folding FROM usage_attribution_days AS known
      WHERE known.day = wanted.day AND known.key_id = wanted.key_id
      LIMIT 1
    ) AS of_day ON true
    ORDER BY n`.execute(tx);
  const days = new Map<string, AttributionDay>();
  for (const [index, one] of wanted.entries()) {
    const { is_own: isOwn, combinations, folding } = rows[index] ?? {};
    const day = days.get(dayName(one)) ?? {
      combinations: combinations ?? 0,
      folding: folding ?? NOTHING_FOLDED,
      own: new Set(),
    };
    days.set(dayName(one), day);
    if (isOwn) day.own.add(valuesText(one.values));
  }
  return days;
}

function merged(
  before: ReadonlyMap<string, AttributionDay>,
  later: ReadonlyMap<string, AttributionDay>,
): Map<string, AttributionDay> {
  const days = new Map([...before, ...later]);
  for (const [name, { own }] of before) for (const text of own) days.get(name)?.own.add(text);
  return days;
}

function columns(attributions: readonly Attribution[]): RawBuilder<unknown> {
  const digest = ({ values }: Attribution) =>
    `\\x${createHash('sha256').update(valuesText(values)).digest('hex')}`;
  return sql`${arrayLiteral(attributions.map(({ day }) => new Date(day)))}::timestamptz[],
    ${arrayLiteral(attributions.map(({ keyId }) => keyId))}::text[], ${arrayLiteral(attributions.map(digest))}::bytea[]`;
}

/** One of each day, in the order of the primary key, which is that of all locks. */
const firstOfDays = (attributions: readonly Attribution[]) => [
  ...new Map(attributions.map((one) => [dayName(one), one])).values(),
];

/** Locks the days of some combinations, and returns those whose days have changed since they were looked up. */
async function lockDays(
  tx: Tx,
  known: ReadonlyMap<string, AttributionDay>,
  attributions: readonly Attribution[],
): Promise<Attribution[]> {
  const days = firstOfDays(attributions);
  const { rows } = await sql<
    Pick<AttributionDay, 'combinations' | 'folding'> & { day: Date; key_id: string }
  >`
    INSERT INTO usage_attribution_days (day, key_id)
    SELECT day, key_id
    FROM unnest(${arrayLiteral(days.map(({ day }) => new Date(day)))}::timestamptz[],
      ${arrayLiteral(days.map(({ keyId }) => keyId))}::text[]) AS wanted (day, key_id)
    ORDER BY day, key_id
    ON CONFLICT (day, key_id) DO UPDATE SET folding = usage_attribution_days.folding
    RETURNING day, key_id, combinations, folding`.execute(tx);
  const locked = new Map(
    rows.map(({ day, key_id: keyId, ...now }) => [dayName({ day: day.getTime(), keyId }), now]),
  );
  return attributions.filter((one) => {
    const [before, now] = [dayIn(known, one), locked.get(dayName(one))];
    return before.combinations !== now?.combinations || before.folding !== now.folding;
  });
}

/** Of days that this transaction holds locked. */
async function writeDays(
  tx: Tx,
  known: ReadonlyMap<string, AttributionDay>,
  open: readonly Attribution[],
  added: readonly Attribution[],
): Promise<void> {
  const days = firstOfDays(open);
  const of = (read: (day: AttributionDay) => number) =>
    arrayLiteral(days.map((one) => read(dayIn(known, one))));
  await sql`
    WITH added AS (
      INSERT INTO usage_attributions (day, key_id, attribution_sha256)
      SELECT * FROM unnest(${columns(added)})
    )
    INSERT INTO usage_attribution_days (day, key_id, combinations, folding)
    SELECT * FROM unnest(${arrayLiteral(days.map(({ day }) => new Date(day)))}::timestamptz[],
      ${arrayLiteral(days.map(({ keyId }) => keyId))}::text[],
      ${of(({ combinations }) => combinations)}::integer[], ${of(({ folding }) => folding)}::smallint[])
    ON CONFLICT (day, key_id) DO UPDATE SET combinations = excluded.combinations, folding = excluded.folding`.execute(
    tx,
  );
}
