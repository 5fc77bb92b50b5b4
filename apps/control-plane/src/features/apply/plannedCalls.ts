import type { RunningUnit } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import type { FastifyInstance } from 'fastify';
import type { Caller } from '../../shared/caller.ts';
import type { Expected } from '../../shared/preconditions.ts';
import { type Change, writeChanges } from '../changes/changes.service.ts';
import type { Applied, PlanError, PlannedCall, PlanResult } from './apply.schemas.ts';

/** The headers that say who sends a request. */
export type Credential = Readonly<Record<string, string>>;

/** The operator API within a transaction. It is called by one plan at a time. */
export interface PlanApi {
  readonly app: FastifyInstance;
  readonly call: CurrentCall;
}

/** What the operator API needs to know of the call of a plan that it makes now. */
export class CurrentCall {
  /** What the call expects of its resource. */
  expected: Expected;
  /** Undefined: it has to be read again. */
  caller: Caller | undefined;

  /** The sender of the plan, with the rights that the calls before left it. */
  async callerOf(authenticate: () => Promise<Caller>): Promise<Caller> {
    this.caller ??= await authenticate();
    return this.caller;
  }

  /** Has the caller read again if changes may concern its rights. */
  follow(changes: readonly Change[]): void {
    const { caller } = this;
    const isOwn = ({ action, resourceId }: Change) =>
      action.startsWith('team.') ||
      resourceId === caller?.principalId ||
      (caller?.identity.kind === 'key' && resourceId === caller.identity.keyId);
    if (changes.some(isOwn)) this.caller = undefined;
  }
}

/** The operator API for the calls of plans. */
export function createPlanApi(build: (call: CurrentCall) => FastifyInstance): PlanApi {
  const call = new CurrentCall();
  const app = build(call);
  onlyChanges(app);
  return { app, call };
}

/** Only what is in the database: nothing else that an operation does, such as asking a vendor, would be undone. */
function onlyChanges(app: FastifyInstance): void {
  app.addHook('onRequest', async ({ routeOptions, method }) => {
    const isFeed = routeOptions.url?.startsWith('/api/v1/catalog/feed');
    const { propagates, plannable } = routeOptions.config;
    if ((propagates && !isFeed) || plannable || routeOptions.url === undefined) return;
    const message = `${method} ${routeOptions.url}: a plan can't contain this operation.`;
    throw new AppError('invalid_request', 'not_plannable', message);
  });
}

/** Makes the calls of a plan one after the other, and fills the ids of what they create into later ones. */
export class PlannedCalls {
  readonly errors: PlanError[] = [];
  readonly #results: PlanResult[] = [];
  #made = 0;
  readonly #api: PlanApi;
  readonly #credential: Credential;
  /** By placeholder. Undefined: the call that creates it failed. */
  readonly #ids = new Map<string, string | undefined>();

  constructor(api: PlanApi, credential: Credential) {
    this.#api = api;
    this.#credential = credential;
    api.call.caller = undefined;
  }

  /** Makes a call, unless it needs what was not created. Resolves with false if it was refused. */
  async make(unit: RunningUnit, index: number, call: PlannedCall): Promise<boolean> {
    const path = this.#filledPath(call.path);
    const needs = { isMissing: path === undefined };
    const body = this.#filledBody(call.body, needs);
    if (call.creates !== undefined) this.#ids.set(call.creates, undefined);
    if (path === undefined || needs.isMissing) return true;
    this.#made++;
    const before = unit.leftCount();
    const isMade = await unit.attempt(() => this.#send(index, call, path, body));
    this.#api.call.follow(unit.left(writeChanges, before));
    return isMade;
  }

  applied(isDryRun: boolean): Applied {
    const { errors } = this;
    // A dry run is rolled back, so it returns no secrets of the keys that it issued.
    return { dry_run: isDryRun, calls: this.#made, errors, results: isDryRun ? [] : this.#results };
  }

  async #send(index: number, call: PlannedCall, path: string, body: unknown): Promise<boolean> {
    this.#api.call.expected = call.expects;
    const { statusCode: status, body: text } = await this.#api.app.inject({
      method: call.method,
      url: path,
      headers: { ...this.#credential, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { payload: JSON.stringify(body) }),
    });
    if (status >= 500) {
      throw interrupted(`Call ${index}, ${call.method} ${path},`);
    }
    const response = JSON.parse(text) as PlanResult & { error?: Omit<PlanError, 'index' | 'status'> };
    if (response.error !== undefined && status >= 400) {
      const { code, message, param } = response.error;
      this.errors.push({ index, status, code, message, param });
      return false;
    }
    const { id, key, secret } = response;
    if (call.creates !== undefined && typeof id === 'string') this.#ids.set(call.creates, id);
    this.#results[index] = { ...(id && { id }), ...(key && { key }), ...(secret && { secret }) };
    return true;
  }

  /** Undefined if it needs what was not created. */
  #filledPath(path: string): string | undefined {
    let isMissing = false;
    const filled = path.replace(/\{[^{}]*\}/g, (placeholder) => {
      if (!this.#ids.has(placeholder)) return placeholder;
      const id = this.#ids.get(placeholder);
      if (id === undefined) isMissing = true;
      return id ?? '';
    });
    return isMissing ? undefined : filled;
  }

  #filledBody(value: unknown, needs: { isMissing: boolean }): unknown {
    if (typeof value === 'string') {
      if (!this.#ids.has(value)) return value;
      const id = this.#ids.get(value);
      if (id === undefined) needs.isMissing = true;
      return id;
    }
    if (Array.isArray(value)) return value.map((item) => this.#filledBody(item, needs));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [name, this.#filledBody(inner, needs)]),
    );
  }
}

export function interrupted(what: string, cause?: unknown): AppError {
  const message = `${what} could not be made: another change may hold what it needs. Nothing was changed. Try again.`;
  return new AppError('unavailable', 'apply_interrupted', message, { cause });
}
