import { createRehearsal, type Database, type Rehearsal } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import type { FastifyInstance } from 'fastify';
import { lockGovernance } from '../policies/governance.ts';
import type { PlanCheck, PlanError, PlannedCall } from './plans.schemas.ts';

export interface PlanDeps {
  readonly db: Database;
  /** The operator API on another database. */
  readonly buildApi: (db: Database) => FastifyInstance;
}

/** The headers that say who sends a request. */
type Credential = Readonly<Record<string, string>>;

export interface Plans {
  /** Makes the calls with the caller's credential, one after the other, and undoes them all. */
  check(credential: Credential, calls: readonly PlannedCall[]): Promise<PlanCheck>;
  close(): Promise<void>;
}

/** Other changes wait for the locks of a check. */
const MAX_DURATION_MS = 120_000;

export function createPlans({ db, buildApi }: PlanDeps): Plans {
  // Built at the first check: most processes are asked for none.
  let parts: { readonly rehearsal: Rehearsal; readonly api: FastifyInstance } | undefined;
  let isRunning = false;
  const open = () => {
    const rehearsal = createRehearsal(db);
    return { rehearsal, api: onlyChanges(buildApi(rehearsal.db)) };
  };
  return {
    async check(credential, calls) {
      if (isRunning) {
        throw new AppError('unavailable', 'check_running', 'Another plan is being checked. Try again.');
      }
      isRunning = true;
      try {
        parts ??= open();
        const { rehearsal, api } = parts;
        return await rehearsal.run(async (attempt) => {
          // First, as in every change that needs it: its holders wait for rows that a plan may hold.
          await rehearsal.db.transaction().execute((tx) => lockGovernance(tx, 'exclusive'));
          return await new Check(api, credential, attempt).run(calls);
        });
      } finally {
        isRunning = false;
      }
    },
    async close() {
      await parts?.api.close();
    },
  };
}

/** Only what is in the database: nothing else that an operation does, such as asking a vendor, would be undone. */
function onlyChanges(api: FastifyInstance): FastifyInstance {
  api.addHook('onRequest', async ({ routeOptions, method }) => {
    const isFeed = routeOptions.url?.startsWith('/api/v1/catalog/feed');
    const { propagates, plannable } = routeOptions.config;
    if ((propagates && !isFeed) || plannable || routeOptions.url === undefined) return;
    const message = `${method} ${routeOptions.url}: a plan can't contain this operation.`;
    throw new AppError('invalid_request', 'not_plannable', message);
  });
  return api;
}

class Check {
  readonly #api: FastifyInstance;
  readonly #credential: Credential;
  readonly #attempt: (step: () => Promise<boolean>) => Promise<void>;
  /** By placeholder. Undefined: the call that creates it failed. */
  readonly #ids = new Map<string, string | undefined>();
  readonly #errors: PlanError[] = [];
  #checked = 0;

  constructor(
    api: FastifyInstance,
    credential: Credential,
    attempt: (step: () => Promise<boolean>) => Promise<void>,
  ) {
    this.#api = api;
    this.#credential = credential;
    this.#attempt = attempt;
  }

  async run(calls: readonly PlannedCall[]): Promise<PlanCheck> {
    const deadline = Date.now() + MAX_DURATION_MS;
    for (const [index, call] of calls.entries()) {
      if (Date.now() > deadline) {
        const message = `The check took longer than ${MAX_DURATION_MS / 1_000} s, at call ${index} of ${calls.length}. Split the plan.`;
        throw new AppError('invalid_request', 'plan_too_large', message, { param: 'calls' });
      }
      const path = this.#filledPath(call.path);
      const needs = { isMissing: path === undefined };
      const body = this.#filledBody(call.body, needs);
      if (call.creates !== undefined) this.#ids.set(call.creates, undefined);
      if (path !== undefined && !needs.isMissing) await this.#try(index, call, path, body);
    }
    return { checked: this.#checked, errors: this.#errors };
  }

  async #try(index: number, call: PlannedCall, path: string, body: unknown): Promise<void> {
    this.#checked++;
    await this.#attempt(async () => {
      const { statusCode: status, body: text } = await this.#api.inject({
        method: call.method,
        url: path,
        headers: { ...this.#credential, ...(body !== undefined && { 'content-type': 'application/json' }) },
        ...(body !== undefined && { payload: JSON.stringify(body) }),
      });
      if (status >= 500) {
        const message = `Call ${index}, ${call.method} ${path}, could not be checked: another change may hold what it needs. Try again.`;
        throw new AppError('unavailable', 'check_interrupted', message);
      }
      const answer = JSON.parse(text) as { id?: unknown; error?: Omit<PlanError, 'index' | 'status'> };
      if (answer.error !== undefined && status >= 400) {
        const { code, message, param } = answer.error;
        this.#errors.push({ index, status, code, message, param });
        return false;
      }
      if (call.creates !== undefined && typeof answer.id === 'string') {
        this.#ids.set(call.creates, answer.id);
      }
      return true;
    });
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
