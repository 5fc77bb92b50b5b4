import { describe, expect, it } from 'vitest';
import { credentialHosts } from './credentialHosts.ts';

const LISTED =
  ' env:GROQ_TEAM_KEY=api.groq.com ; file:/run/secrets/gpu=gpu.internal:8000, *.models.local;env:MISTRAL_API_KEY=eu.mistral.example';

describe('a referenced credential', () => {
  const hosts = credentialHosts(LISTED, {});
  it.each([
    ['env:GROQ_TEAM_KEY', 'https://api.groq.com/openai/v1'],
    ['env:GROQ_TEAM_KEY', 'https://API.GROQ.COM:8443/v1'],
    ['file:/run/secrets/gpu', 'http://gpu.internal:8000/v1'],
    ['file:/run/secrets//./gpu', 'https://a.models.local/v1'],
    ['env:OPENAI_API_KEY', 'https://api.openai.com/v1'],
    ['env:MISTRAL_API_KEY', 'https://eu.mistral.example/v1'],
  ])('goes where the deployment lets it: %s to %s', (ref, url) => {
    expect([hosts.fault(ref, url), hosts.isBound(ref)]).toEqual([undefined, true]);
  });

  it('names the hosts that it may go to', () => {
    expect(hosts.hostsOf('file:/run/secrets//gpu')).toEqual(['gpu.internal:8000', '*.models.local']);
    expect(hosts.hostsOf('env:UNLISTED')).toEqual([]);
    expect(hosts.hostsOf('env:OPENAI_API_KEY')).toContain('api.openai.com');
    expect(credentialHosts(undefined, {}).hostsOf('env:UNLISTED')).toBeUndefined();
  });

  it.each([
    ['env:GROQ_TEAM_KEY', 'https://evil.example/v1'],
    ['env:GROQ_TEAM_KEY', 'https://api.groq.com.evil.example/v1'],
    ['env:GROQ_TEAM_KEY', 'https://evil.example/api.groq.com'],
    ['env:GROQ_TEAM_KEY', 'https://api.groq.com./v1'],
    ['env:groq_team_key', 'https://api.groq.com/v1'],
    ['file:/run/secrets/gpu', 'http://gpu.internal:8001/v1'],
    ['file:/run/secrets/../secrets/gpu', 'https://models.local/v1'],
    ['file:/run/secrets/other', 'http://gpu.internal:8000/v1'],
    ['env:UNLISTED', 'https://api.groq.com/v1'],
    ['env:OPENAI_API_KEY', 'https://api.groq.com/v1'],
    // The list replaces the vendor's own host.
    ['env:MISTRAL_API_KEY', 'https://api.mistral.ai/v1'],
  ])('goes nowhere else: %s to %s', (ref, url) => {
    expect(hosts.fault(ref, url)).toContain('CREDENTIAL_REF_HOSTS');
    expect(hosts.isBound(ref)).toBe(true);
  });

  it('goes anywhere without a list, but for the variables of vendors', () => {
    const env = {
      OPENAI_BASE_URL: 'https://proxy.example/openai',
      ANTHROPIC_BASE_URL: 'http://127.0.0.1:99',
    };
    for (const text of [undefined, '', ' ']) {
      const unlisted = credentialHosts(text, env);
      expect([unlisted.isBound('env:GPU_KEY'), unlisted.fault('env:GPU_KEY', 'https://any.example')]).toEqual(
        [false, undefined],
      );
      expect(unlisted.isBound('env:OPENAI_API_KEY')).toBe(true);
      for (const [ref, url] of [
        ['env:OPENAI_API_KEY', 'https://api.openai.com/v1'],
        ['env:OPENAI_API_KEY', 'https://proxy.example/v1'],
        ['env:ANTHROPIC_API_KEY', 'http://127.0.0.1:99/v1'],
      ] as const)
        expect(unlisted.fault(ref, url)).toBeUndefined();
      expect(unlisted.fault('env:OPENAI_API_KEY', 'https://evil.example/v1')).toBeDefined();
      expect(unlisted.fault('env:ANTHROPIC_API_KEY', 'https://proxy.example/v1')).toBeDefined();
    }
  });

  it.each([
    'OPENAI_API_KEY=api.openai.com',
    'env:A',
    'env:A=',
    'env:A=https://a.example/v1',
    'env:A=a.example/v1',
    'env:A=*',
    'file:relative=a.example',
    'env:A=a.example;env:A=b.example',
    'file:/a=a.example;file://a=b.example',
  ])('has a list that is refused if it is not valid: %s', (text) => {
    expect(() => credentialHosts(text, {})).toThrow(/CREDENTIAL_REF_HOSTS is not valid/);
  });
});
