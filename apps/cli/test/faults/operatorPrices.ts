import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import type { Cluster } from './cluster.ts';

type Json = Record<string, unknown>;

const MODEL = 'mock/priced-by-hand';

/** Prices of an operator, in the catalog and at a connector, of which every release shows what any of them stored. */
export interface OperatorPrices {
  /** Sets the next version of both at one control plane, and compares all versions at each. */
  setAndCompare(): Promise<void>;
}

export async function createOperatorPrices(cluster: Cluster): Promise<OperatorPrices> {
  const call = async (
    method: string,
    path: string,
    body?: unknown,
    managementUrl = cluster.managementUrl,
  ) => {
    const options = body === undefined ? {} : { body };
    const response = await manage({ ...cluster, managementUrl }, method, `/api/v1${path}`, options);
    expect(response.status, `${method} ${path}: ${JSON.stringify(response.body)}`).toBeLessThan(300);
    return response.body;
  };
  const { data } = (await call('GET', '/connectors')) as { data: Json[] };
  const connector = data.find(({ provider }) => provider === 'mock')?.id;
  const model = `/catalog/models/${MODEL}`;
  const negotiated = `/connectors/${connector}/prices`;
  await call('PUT', model, { context_window: 1_000 });
  const expected: Json[] = [];
  return {
    async setAndCompare() {
      const price = textPrice(BigInt(expected.length + 1));
      await call('POST', `${model}/prices`, price);
      await call('PUT', `${negotiated}/${MODEL}`, price);
      expected.unshift({ version: expected.length + 1, price });
      for (const { url } of cluster.controlPlanes) {
        const lists = [
          `${model}/prices?page_size=100`,
          `${negotiated}?model=${MODEL}&all_versions=true&page_size=100`,
        ];
        for (const list of lists) {
          const shown = (await call('GET', list, undefined, url)) as { data: Json[] };
          expect(shown.data, `${list} at ${url}`).toMatchObject(expected);
          expect(shown.data).toHaveLength(expected.length);
        }
      }
    },
  };
}

/** What v0.1.0 knows of a price, with amounts that no float holds. */
function textPrice(version: bigint): Json {
  const usd = (nano: bigint) => {
    return { currency_code: 'USD', units: Number(version), nanos: Number(nano) };
  };
  const rates = (first: bigint) => ({
    input_price: usd(first),
    output_price: usd(first + 1n),
    cache_read_price: usd(first + 2n),
    cache_write_price: usd(first + 3n),
    cache_write_1h_price: usd(first + 4n),
  });
  return { ...rates(123_456_789n), tiers: [{ above_input_tokens: 1_000, ...rates(987_654_321n) }] };
}
