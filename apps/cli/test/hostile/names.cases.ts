import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import { chat, expectExact, type HostileCase, hard, message, PLENTY } from './hostileCase.ts';
import { operate } from './product.ts';
import type { Scene } from './scene.ts';

const ROW = 'a policy holds for a model under every name';

async function addAlias({ product }: Scene, alias: object): Promise<void> {
  await operate(product, 'POST', '/api/v1/aliases?wait=propagated', alias);
}

/** Names of models other than their ids. */
export const NAMES: readonly HostileCase[] = [
  {
    row: ROW,
    title: 'a bare name, a name of a cloud and an alias reach no model that its id does not reach',
    async run(scene) {
      const allowed = ['openai/plain', 'anthropic/plain', 'local/plain'];
      const tried = await scene.tenant({ allowed_models: allowed });
      await addAlias(scene, { name: 'innocent', target: 'anthropic/dear' });
      await addAlias(scene, { name: 'pl*', target: 'openai/dear', policy_id: tried.policyId });
      for (const name of ['dear', 'innocent', 'plain-looking', 'us.openai.dear-v1:0', 'models/dear']) {
        const { status, code } = await tried.ask('/v1/chat/completions', chat(name));
        expect([name, status, code]).toEqual([name, 403, 'model_not_allowed']);
      }
      const nested = await tried.ask('/v1/messages', message({ fallbacks: [{ model: 'innocent' }] }));
      expect(nested.status).toBe(403);
      expect(tried.entries()).toEqual([]);
    },
  },
  {
    row: ROW,
    title: 'a bare name and an alias are charged, under a hard budget too, as the model that they stand for',
    async run(scene) {
      const tried = await scene.tenant(hard(PLENTY));
      await addAlias(scene, { name: 'costly-*', target: 'openai/dear', policy_id: tried.policyId });
      const limit = { max_completion_tokens: 200 };
      for (const name of ['costly-1', 'openai/dear']) {
        const { status, headers } = await tried.ask('/v1/chat/completions', chat(name, limit));
        expect([name, status, headers.get('x-svc-model')]).toEqual([name, 200, 'openai/dear']);
      }
      const { status, headers } = await tried.ask(
        '/v1/chat/completions',
        chat('surprise', { max_tokens: 200 }),
      );
      expect([status, headers.get('x-svc-model')]).toEqual([200, expect.stringMatching(/\/surprise$/)]);
      await expectExact(tried, 3);
    },
  },
  {
    row: 'what no request can use is refused when it is written',
    title: 'aliases of aliases, of what does not exist, and under the name of a provider or profile',
    async run(scene) {
      await addAlias(scene, { name: 'first', target: 'local/plain' });
      for (const alias of [
        { name: 'second', target: 'first' },
        { name: 'self', target: 'self' },
        { name: 'none', target: 'local/none' },
        { name: 'none', target: 'router/none' },
        { name: 'openai/plain', target: 'local/plain' },
        { name: 'router/default', target: 'local/plain' },
        { name: 'a*b', target: 'local/plain' },
        { name: 'x'.repeat(10_000), target: 'local/plain' },
      ]) {
        const { status } = await manage(scene.product, 'POST', '/api/v1/aliases', { body: alias });
        expect([alias.name.slice(0, 20), alias.target, status]).toEqual([
          alias.name.slice(0, 20),
          alias.target,
          422,
        ]);
      }
      const tried = await scene.tenant();
      const unknown = await tried.ask('/v1/chat/completions', chat('firts'));
      expect([unknown.status, unknown.code]).toEqual([404, 'model_not_found']);
      expect(unknown.text).toContain('first');
      // What the catalog has and nothing serves is named to those alone who may use it.
      const narrow = await scene.tenant({ allowed_models: ['local/*'] });
      for (const [tenant, isTold] of [
        [tried, true],
        [narrow, false],
      ] as const) {
        const { status, text } = await tenant.ask('/v1/chat/completions', chat('grok-4.3'));
        expect([status, text.includes('xai/grok-4.3')]).toEqual([404, isTold]);
      }
    },
  },
];
