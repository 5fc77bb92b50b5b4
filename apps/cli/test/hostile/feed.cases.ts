import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import type { HostileCase } from './hostileCase.ts';
import { operate, type Product } from './product.ts';

/** What a feed of prices can do to the prices in force: no large change without an operator. */

type Json = Record<string, unknown>;

const LIST = '/api/v1/catalog/feed';
const usd = (units: number) => ({ currency_code: 'USD', units, nanos: 0 });
const genai = (prices: Record<string, unknown>) => [
  { id: 'local', models: Object.entries(prices).map(([id, price]) => ({ id, prices: price })) },
];
const refresh = async (product: Product) => (await operate(product, 'POST', `${LIST}/refresh`)) as Json;
const at = (name: string) => `/api/v1/catalog/models/${encodeURIComponent(`local/${name}`)}`;
const inputOf = async (product: Product, name: string) => {
  const { price } = (await operate(product, 'GET', at(name))) as { price: { price: Json } | null };
  return price?.price.input_price;
};
const heldOf = async (product: Product, name: string) => {
  const path = `${LIST}/changes?state=held&page_size=500`;
  const { data } = (await operate(product, 'GET', path)) as { data: Json[] };
  return data.filter(({ model }) => model === `local/${name}`);
};

/** A model whose price of 1 USD a person approved from the feed. */
async function fedModel(product: Product, name: string): Promise<void> {
  await operate(product, 'PUT', at(name), { context_window: 100_000 });
  product.feed.serve(genai({ [name]: { input_mtok: 1, output_mtok: 1 } }));
  await refresh(product);
  const [held] = await heldOf(product, name);
  await operate(product, 'POST', `${LIST}/changes/${held?.id}/approve`);
}

export const FEED: readonly HostileCase[] = [
  {
    row: 'a feed whose prices fall to a hundredth',
    title: 'waits for an operator, also in small steps',
    async run({ product }) {
      await fedModel(product, 'plain-fed');
      for (const input_mtok of [0.01, 0, 1_000]) {
        product.feed.serve(genai({ 'plain-fed': { input_mtok, output_mtok: 1 } }));
        expect(await refresh(product)).toMatchObject({ state: 'ok', applied: 0 });
        expect(await heldOf(product, 'plain-fed')).toHaveLength(1);
        expect(await inputOf(product, 'plain-fed')).toEqual(usd(1));
      }
      for (const input_mtok of [0.5, 0.2, 0.05]) {
        product.feed.serve(genai({ 'plain-fed': { input_mtok, output_mtok: 1 } }));
        await refresh(product);
      }
      expect(await inputOf(product, 'plain-fed')).toMatchObject({ units: 0, nanos: 200_000_000 });
    },
  },
  {
    row: 'a feed that is down, malformed or endless',
    title: 'changes no price, and the operator sees why',
    async run({ product }) {
      await fedModel(product, 'steady-fed');
      const answers: readonly (readonly [unknown, string])[] = [
        ['<html>', 'not JSON'],
        ['{"a":{"b":1}}', 'neither'],
        [`[{"id":"local","models":[${'{"id":"a"},'.repeat(1_000_000)}{"id":"b"}]}]`, 'more than'],
        [`["${'x'.repeat(20_000_000)}"]`, 'larger than'],
        [JSON.stringify(genai({ 'steady-fed': { input_mtok: -1, output_mtok: -1 } })), 'negative'],
      ];
      for (const [text, why] of answers) {
        product.feed.serve((_: unknown, response: { end(text: unknown): void }) => response.end(text));
        expect(await refresh(product)).toMatchObject({
          state: 'failing',
          error: expect.stringContaining(why),
        });
        expect(await inputOf(product, 'steady-fed')).toEqual(usd(1));
      }
      const elsewhere = { location: 'http://169.254.169.254/latest/meta-data' };
      product.feed.serve(
        (_: unknown, response: { writeHead(status: number, headers: object): { end(): void } }) =>
          response.writeHead(302, elsewhere).end(),
      );
      expect(await refresh(product)).toMatchObject({
        state: 'failing',
        error: expect.stringContaining('https'),
      });
    },
  },
  {
    row: 'a feed that names what an operator set',
    title: 'changes neither prices of operators nor negotiated ones, and no tenant sees or refreshes it',
    async run({ product, tenant }) {
      await operate(product, 'PUT', at('own-fed'), {
        context_window: 100_000,
        price: { input_price: usd(3), output_price: usd(3) },
      });
      product.feed.serve(genai({ 'own-fed': { input_mtok: 2, output_mtok: 2 } }));
      expect(await refresh(product)).toMatchObject({ state: 'ok', applied: 0, operator_prices: 1 });
      expect(await inputOf(product, 'own-fed')).toEqual(usd(3));
      const mine = await tenant();
      for (const [method, path] of [
        ['GET', LIST],
        ['GET', `${LIST}/changes`],
        ['POST', `${LIST}/refresh`],
      ] as const)
        expect((await manage(product, method, path, { key: mine.key })).status).toBe(403);
    },
  },
];
