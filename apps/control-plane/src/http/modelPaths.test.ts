import { expect, it } from 'vitest';
import { encodeModelInPath } from './modelPaths.ts';

it.each([
  ['/api/v1/catalog/models', '/api/v1/catalog/models'],
  ['/api/v1/catalog/models?page_size=1', '/api/v1/catalog/models?page_size=1'],
  ['/api/v1/catalog/models/acme/one', '/api/v1/catalog/models/acme%2Fone'],
  ['/api/v1/catalog/models/acme%2Fone', '/api/v1/catalog/models/acme%2Fone'],
  ['/api/v1/catalog/models/acme/a/b/', '/api/v1/catalog/models/acme%2Fa%2Fb'],
  ['/api/v1/catalog/models/acme/a/b/prices', '/api/v1/catalog/models/acme%2Fa%2Fb/prices'],
  [
    '/api/v1/catalog/models/acme%2Fa/prices?page_token=x/y',
    '/api/v1/catalog/models/acme%2Fa/prices?page_token=x/y',
  ],
  ['/api/v1/catalog/models/acme%2Fprices', '/api/v1/catalog/models/acme%2Fprices'],
  ['/api/v1/catalog/models/acme%2Fa%2Fprices/prices', '/api/v1/catalog/models/acme%2Fa%2Fprices/prices'],
  ['/api/v1/catalog/models/acme/prices', '/api/v1/catalog/models/acme/prices'],
  ['/api/v1/catalog/models/prices', '/api/v1/catalog/models/prices'],
  ['/api/v1/connectors/con_1/prices', '/api/v1/connectors/con_1/prices'],
  ['/api/v1/connectors/con_1/prices/acme/a/prices', '/api/v1/connectors/con_1/prices/acme%2Fa%2Fprices'],
  ['/api/v1/connectors/con_1/test', '/api/v1/connectors/con_1/test'],
  ['/api/v1/keys/a/b', '/api/v1/keys/a/b'],
])('%s is rewritten to %s', (url, read) => {
  expect(encodeModelInPath(url)).toBe(read);
});
