import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { beforeEach } from 'vitest';
import { HELLO, post } from './post.ts';
import { ALICE, type TestProxy, type TestProxyOptions } from './proxy.ts';
import { startProxyForTest } from './useProxy.ts';

const HOUR_MS = 3_600_000;
export const PRINCIPAL_CACHE = { policyId: 'pol_1', scope: 'principal', ttlMs: HOUR_MS } as const;
export const POLICY_CACHE = { ...PRINCIPAL_CACHE, scope: 'policy' } as const;

interface RequestOptions {
  readonly key?: string;
  readonly headers?: Record<string, string>;
}

/** Starts a proxy for each test. By default it caches responses per principal. */
export function useCachingProxy(vendor: { readonly url: string }) {
  let proxy: TestProxy;
  const startWith = async (options: Partial<TestProxyOptions>): Promise<void> => {
    proxy = await startProxyForTest({ vendorUrl: vendor.url, ...options });
  };
  beforeEach(() => startWith({ policyCache: PRINCIPAL_CACHE }));

  function openai({ key = ALICE, headers = {} }: RequestOptions = {}): OpenAI {
    return new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: key, maxRetries: 0, defaultHeaders: headers });
  }

  return {
    get proxy() {
      return proxy;
    },
    /** Replaces the proxy. */
    startWith,
    openai,
    anthropic({ key = ALICE, headers = {} }: RequestOptions = {}): Anthropic {
      return new Anthropic({ baseURL: proxy.url, apiKey: key, maxRetries: 0, defaultHeaders: headers });
    },
    /** Sends one request; returns the response with its `x-svc-cache`. */
    async ask(
      options: RequestOptions = {},
      body: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming> = {},
    ) {
      const { data, response } = await openai(options)
        .chat.completions.create({ ...HELLO, ...body })
        .withResponse();
      return { data, cache: response.headers.get('x-svc-cache'), headers: response.headers };
    },
    post: (path: string, body: object | string, headers?: Record<string, string>) =>
      post(proxy, path, body, headers),
  };
}
