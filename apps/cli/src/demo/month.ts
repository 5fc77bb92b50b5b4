import { seededRandom } from '@weighbridge/domain';
import { type DemoPerson, type DemoTeam, TEAMS } from './company.ts';

/** One attempt at a vendor, or a response from the cache, before it has ids and a price. */
export interface MonthAttempt {
  readonly at: Date;
  readonly team: DemoTeam;
  readonly person: DemoPerson;
  readonly application: string;
  readonly model: string;
  readonly outcome: 'success' | 'failed' | 'cached';
  readonly streamed: boolean;
  readonly input: number;
  readonly cached: number;
  readonly output: number;
  readonly firstByteMs: number;
  readonly durationMs: number;
  readonly project: string;
  readonly feature: string;
  readonly env: 'prod' | 'staging';
  readonly session: string;
  /** Counts from 1 within a request: the second follows a failed one. */
  readonly attempt: number;
  /** Of the requests of the month; attempts of one request have one. */
  readonly request: number;
}

export interface Month {
  readonly attempts: readonly MonthAttempt[];
  /** Requests that came after the budget of their team was used up. */
  readonly refused: readonly Pick<
    MonthAttempt,
    'at' | 'team' | 'person' | 'application' | 'model' | 'project'
  >[];
}

export const DAYS = 30;
const DAY_MS = 86_400_000;
/** Attempts of each team in this calendar month, however young it is: its budget has a use. */
const AT_LEAST_THIS_MONTH = 40;
const REFUSED_REQUESTS = 64;
const FAILED_SHARE = 0.018;
const CACHED_SHARE = 0.06;

/** A month until now. The same seed and time give the same month. */
export function generateMonth(seed: number, now: Date): Month {
  const random = seededRandom(seed);
  const attempts: MonthAttempt[] = [];
  const refused: Month['refused'][number][] = [];
  let request = 0;
  for (const team of TEAMS) {
    const end = endOfSpending(team, now);
    for (const at of timesOf(team, now, end, random)) {
      request += 1;
      attempts.push(...attemptsOf(team, at, request, random));
    }
    if (team.percentUsed < 100) continue;
    for (let n = 0; n < REFUSED_REQUESTS; n++) {
      const at = new Date(end.getTime() + 1 + Math.floor((now.getTime() - end.getTime() - 1) * random()));
      refused.push({ ...senderOf(team, random), at, team });
    }
  }
  attempts.sort((one, other) => one.at.getTime() - other.at.getTime());
  refused.sort((one, other) => one.at.getTime() - other.at.getTime());
  return { attempts, refused };
}

export function monthStart(now: Date): Date {
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1));
}

/** A team whose budget is used up spends nothing from then on. */
function endOfSpending(team: DemoTeam, now: Date): Date {
  if (team.percentUsed < 100) return now;
  const start = monthStart(now).getTime();
  return new Date(Math.max(now.getTime() - 0.8 * DAY_MS, start + (now.getTime() - start) / 2));
}

/** People work by day and on weekdays, and a little more each week. */
function timesOf(team: DemoTeam, now: Date, end: Date, random: () => number): Date[] {
  const times: Date[] = [];
  for (let day = DAYS - 1; day >= 0; day--) {
    const midnight = Math.floor((now.getTime() - day * DAY_MS) / DAY_MS) * DAY_MS;
    const isWeekend = [0, 6].includes(new Date(midnight).getUTCDay());
    const growth = 0.75 + (0.4 * (DAYS - day)) / DAYS;
    const count = Math.round(team.requestsPerDay * growth * (isWeekend ? 0.22 : 1) * (0.85 + 0.3 * random()));
    for (let n = 0; n < count; n++) times.push(new Date(midnight + hourOf(random) * 3_600_000));
  }
  const start = monthStart(now).getTime();
  for (let n = 0; n < AT_LEAST_THIS_MONTH; n++) {
    times.push(new Date(start + Math.floor((end.getTime() - start) * random())));
  }
  const from = now.getTime() - DAYS * DAY_MS;
  return times.filter((at) => at.getTime() >= from && at <= end);
}

/** Around two in the afternoon, rarely at night. */
function hourOf(random: () => number): number {
  if (random() < 0.1) return 24 * random();
  return Math.min(23.99, Math.max(0, 14 + 3.2 * (random() + random() + random() - 1.5) * 2));
}

function senderOf(team: DemoTeam, random: () => number) {
  const person = pick(team.people, random);
  return {
    person,
    application: pick(person.applications, random),
    project: pick(team.projects, random),
    model: modelOf(team, random),
  };
}

function attemptsOf(team: DemoTeam, at: Date, request: number, random: () => number): MonthAttempt[] {
  const sender = senderOf(team, random);
  const input = Math.round(team.usual.input * spread(random));
  const output = Math.round(team.usual.output * spread(random));
  const streamed = random() < 0.6;
  const isCached = random() < CACHED_SHARE;
  const firstByteMs = Math.round(280 * spread(random));
  // Of a conversation, the vendor has the beginning in its own cache.
  const session = `${sender.project}-${Math.floor(at.getTime() / DAY_MS)}-${Math.floor(random() * 12)}`;
  const whole: MonthAttempt = {
    ...sender,
    at,
    team,
    request,
    attempt: 1,
    outcome: isCached ? 'cached' : 'success',
    streamed,
    input: isCached ? 0 : input,
    cached: isCached || random() < 0.5 ? 0 : Math.round(input * 0.6 * random()),
    output: isCached ? 0 : output,
    firstByteMs: isCached ? 1 : firstByteMs,
    durationMs: isCached ? 2 : firstByteMs + output * 9,
    feature: pick(team.features, random),
    env: sender.application.includes('staging') ? 'staging' : 'prod',
    session,
  };
  if (isCached || random() >= FAILED_SHARE) return [whole];
  const failed: MonthAttempt = {
    ...whole,
    outcome: 'failed',
    input: 0,
    cached: 0,
    output: 0,
    durationMs: firstByteMs,
  };
  const next = team.models.find(({ model }) => model !== whole.model)?.model ?? whole.model;
  return [failed, { ...whole, model: next, attempt: 2, at: new Date(at.getTime() + 1) }];
}

function modelOf(team: DemoTeam, random: () => number): string {
  let left = random();
  for (const { model, share } of team.models) {
    left -= share;
    if (left < 0) return model;
  }
  return team.models[0]?.model ?? '';
}

/** Most are near 1, a few three times as much. */
function spread(random: () => number): number {
  return 0.25 + 2.6 * random() ** 2.4;
}

function pick<T>(list: readonly T[], random: () => number): T {
  const one = list[Math.floor(random() * list.length)];
  if (one === undefined) throw new Error('nothing to pick from');
  return one;
}
