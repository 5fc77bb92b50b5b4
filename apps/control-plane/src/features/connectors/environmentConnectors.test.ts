import { describe, expect, it } from 'vitest';
import { environmentConnectors } from './environmentConnectors.ts';
import { PROVIDERS } from './providers.ts';

/** The base URL of a vendor's connector, by its settings. */
function baseUrl(name: string, setting?: string): string | undefined {
  const env = { [`${name}_API_KEY`]: 'key', ...(setting !== undefined && { [`${name}_BASE_URL`]: setting }) };
  return environmentConnectors(env, undefined)[0]?.baseUrl;
}

describe('the base URL of a vendor of the environment', () => {
  it.each(PROVIDERS)('is set by <PROVIDER>_BASE_URL: $name', ({ name, baseUrl: own }) => {
    const prefix = name.toUpperCase();
    expect(baseUrl(prefix)).toBe(own);
    expect(baseUrl(prefix, '')).toBe(own);
    expect(baseUrl(prefix, 'http://127.0.0.1:9/v1/')).toBe('http://127.0.0.1:9/v1');
    expect(() => baseUrl(prefix, 'ftp://x')).toThrow(`${prefix}_BASE_URL is not valid`);
  });

  it("may lack what the vendor's own SDK appends", () => {
    expect(baseUrl('ANTHROPIC', 'https://proxy.test/a')).toBe('https://proxy.test/a/v1');
    expect(baseUrl('GROQ', 'https://api.groq.com')).toBe('https://api.groq.com/openai/v1');
    expect(baseUrl('GROQ', 'https://api.groq.com/openai/v1')).toBe('https://api.groq.com/openai/v1');
    expect(baseUrl('OPENAI', 'https://proxy.test/openai')).toBe('https://proxy.test/openai');
    expect(baseUrl('GEMINI', 'https://proxy.test/v1beta/openai')).toBe('https://proxy.test/v1beta/openai');
  });
});
