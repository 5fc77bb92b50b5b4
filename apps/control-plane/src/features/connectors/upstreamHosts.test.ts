import { describe, expect, it } from 'vitest';
import { baseUrlFault, upstreamHosts, validBaseUrl } from './upstreamHosts.ts';

const none = upstreamHosts('');
const some = upstreamHosts('gpu.internal:8000, *.models.local,10.0.0.7, [::1]:8443');

describe('a base URL', () => {
  it.each([
    'https://api.example.com/v1',
    'https://api.example.com',
    'https://8.8.8.8/v1',
    'https://[2606:4700::1]/v1',
  ])('may be an https URL on the public internet: %s', (url) =>
    expect(baseUrlFault(url, none)).toBeUndefined(),
  );

  it.each([
    'api.example.com/v1',
    'ftp://example.com',
    'file:///etc/passwd',
    'https://user:secret@example.com/v1',
    'https://user@example.com',
    'https://example.com/v1?key=1',
    'https://example.com/v1#x',
    'https:// example.com',
    'https://exam\nple.com',
    'http://api.example.com/v1',
    'https://localhost/v1',
    'https://a.localhost/v1',
    'https://127.0.0.1/v1',
    'https://0x7f000001/v1',
    'https://2130706433/v1',
    'https://10.1.2.3/v1',
    'https://169.254.169.254/latest',
    'https://192.168.1.1',
    'https://172.16.0.1',
    'https://0.0.0.0',
    'https://[::1]/v1',
    'https://[::ffff:127.0.0.1]/v1',
    'https://[64:ff9b::7f00:1]/v1',
    'https://[fe80::1]/v1',
    'https://[fd00::1]/v1',
    'http://gpu.internal:8000/v1',
  ])('is rejected unless the deployment allows it: %s', (url) => {
    expect(baseUrlFault(url, none)).toEqual(expect.any(String));
    expect(() => validBaseUrl(url, none)).toThrow(/This base_url cannot be used/);
  });

  it.each([
    'http://gpu.internal:8000/v1',
    'https://a.models.local',
    'http://10.0.0.7:9/v1',
    'https://[::1]:8443',
  ])('may be a URL that the deployment allows: %s', (url) => expect(baseUrlFault(url, some)).toBeUndefined());

  it.each([
    'http://gpu.internal/v1',
    'http://models.local',
    'http://evil.test/a.models.local',
    'http://10.0.0.8',
    'https://u:p@gpu.internal:8000',
  ])('may not be a URL that the deployment does not allow: %s', (url) =>
    expect(baseUrlFault(url, some)).toEqual(expect.any(String)),
  );

  it('is stored without its trailing slash', () => {
    expect(validBaseUrl('https://API.example.com/v1//', none)).toBe('https://api.example.com/v1');
    expect(validBaseUrl('https://api.example.com/', none)).toBe('https://api.example.com');
  });
});

it.each(['http://gpu.internal', 'a/b', 'a b', '*', 'user@host'])(
  'a list of hosts rejects %s and names it',
  (entry) => {
    expect(() => upstreamHosts(`ok.internal, ${entry}`)).toThrow(entry);
  },
);
