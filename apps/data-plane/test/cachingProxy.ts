import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { beforeEach } from 'vitest';
import { HELLO, post } from './post.ts';
import { ALICE, type TestProxy, type TestProxyOptions } from './proxy.ts';
import { proxyWith } from './useProxy.ts';

const HOUR_MS = 3_600_000;
export const OF_PRINCIPAL = { policyId: 'pol_1', scope: 'principal', ttlMs: HOUR_MS } as const;
export const OF_POLICY = { ...OF_PRINCIPAL, scope: 'policy' } as const;

interface Caller {
  readonly key?: string;
  readonly headers?: Record<string, string>;
}

/** Each test has a proxy of its own, which keeps answers for one principal alone unless it is told otherwise. */
export function useCachingProxy(vendor: { readonly url: string }) {
  let proxy: TestProxy;
  const startWith = async (options: Partial<TestProxyOptions>): Promise<void> => {
    proxy = await proxyWith({ vendorUrl: vendor.url, ...options });
  };
  beforeEach(() => startWith({ policyCache: OF_PRINCIPAL }));

  function openai({ key = ALICE, headers = {} }: Caller = {}): OpenAI {
    return new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: key, maxRetries: 0, defaultHeaders: headers });
  }

  return {
    get proxy() {
      return proxy;
    },
    /** Another proxy in its place. */
    startWith,
    openai,
    anthropic({ key = ALICE, headers = {} }: Caller = {}): Anthropic {
      return new Anthropic({ baseURL: proxy.url, apiKey: key, maxRetries: 0, defaultHeaders: headers });
    },
    /** Asks once, and tells how the cache came into it. */
    async ask(caller: Caller = {}, body: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming> = {}) {
      const { data, response } = await openai(caller)
        .chat.completions.create({ ...HELLO, ...body })
        .withResponse();
      return { data, cache: response.headers.get('x-svc-cache'), headers: response.headers };
    },
    post: (path: string, body: object | string, headers?: Record<string, string>) =>
      post(proxy, path, body, headers),
  };
}
