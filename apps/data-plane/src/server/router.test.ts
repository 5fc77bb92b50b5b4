import { expectLinear } from '@weighbridge/testing';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRouter } from './router.ts';
import { findRoutes, ROUTES } from './routes.ts';

/** Words that no path of the table has, with what has a meaning in one. */
const word = fc.string({
  unit: fc.constantFrom('A', 'Z', '0', '-', '.', '%', '?', '#', '&', ' ', 'é', '😀', '\0'),
  minLength: 1,
});
const name = fc.array(word, { minLength: 1, maxLength: 3 }).map((words) => words.join('/'));
const encoded = (text: string) => text.split('/').map(encodeURIComponent).join('/');
/** Each character that may be encoded, encoded or not. */
const respelled = (path: string, isEncoded: readonly boolean[]) =>
  path.replace(/[\w.~-]/g, (char, at) =>
    isEncoded[at % isEncoded.length] ? `%${char.charCodeAt(0).toString(16)}` : char,
  );

describe('the router', () => {
  it('finds each route of the table by its path, whatever the name in it is, and however it is spelled', () => {
    const spellings = fc.array(fc.boolean(), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(
        fc.constantFrom(...ROUTES),
        name,
        spellings,
        fc.boolean(),
        (route, any, spelling, hasSlash) => {
          const isSegment = route.path.includes('{id}');
          const meant = route.path.includes('{') ? any : '';
          const inPath = isSegment ? encodeURIComponent(any) : encoded(any);
          const literals = route.path.split(/\{\w+\}/).map((part) => respelled(part, spelling));
          const found = findRoutes(`${literals.join(inPath)}${hasSlash ? '/' : ''}`);
          expect([found?.routes.get(route.method), found?.name]).toEqual([route, meant]);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it('lists the methods of a path, and serves HEAD as GET', () => {
    const row = (method: string, path: string) => ({ method, path });
    const get = row('GET', '/a/{id}');
    const find = createRouter([row('DELETE', '/a/{id}'), get, row('POST', '/b')]);
    expect(find('/a/x')?.allow).toBe('GET, HEAD, DELETE');
    expect(find('/a/x')?.routes.get('HEAD')).toBe(get);
    expect(find('/b')?.allow).toBe('POST');
    expect(find('/b')?.routes.get('GET')).toBeUndefined();
  });

  it('prefers a path without a placeholder, then the longest pattern', () => {
    const paths = ['/a/{name}', '/a/b', '/a/{name}/c', '/a/{name}/c/d', '/a/{name}:run'];
    const find = createRouter(paths.map((path) => ({ method: 'GET', path })));
    const found = (path: string) => [find(path)?.any.path, find(path)?.name];
    expect(found('/a/b')).toEqual(['/a/b', '']);
    expect(found('/a/x/y')).toEqual(['/a/{name}', 'x/y']);
    expect(found('/a/x/c')).toEqual(['/a/{name}/c', 'x']);
    expect(found('/a/x/c/c/d')).toEqual(['/a/{name}/c/d', 'x/c']);
    expect(found('/a/x:run')).toEqual(['/a/{name}:run', 'x']);
    expect(found('/a/:run')).toEqual(['/a/{name}', ':run']);
    expect(found('/a')).toEqual([undefined, undefined]);
  });

  it.each(['/', '%25', '%', 'é', ':', '/models/', ':generateContent', '#'])(
    'takes time in proportion to a path of many %j',
    async (piece) => {
      await expectLinear(400_000, (size) => {
        const path = `/v1beta/models/${piece.repeat(size / piece.length)}x`;
        return () => findRoutes(path);
      });
    },
  );
});
