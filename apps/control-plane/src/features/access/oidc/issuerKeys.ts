import type { Logger } from '@weighbridge/runtime';
import { errors, type JWTVerifyGetKey } from 'jose';
import type { KeySet } from './issuer.ts';
import { createIssuerCache } from './issuerCache.ts';

export interface IssuerKeysDeps {
  readonly readKeys: () => Promise<KeySet>;
  readonly now: () => Date;
  readonly logger: Logger;
}

/**
 * Caches the issuer's keys. A token with an unknown key makes it read them again, so that the issuer can rotate its keys.
 * Throws 503 if the keys have to be read and the issuer is unavailable.
 */
export function createIssuerKeys({ readKeys, now, logger }: IssuerKeysDeps): JWTVerifyGetKey {
  const cache = createIssuerCache({ read: readKeys, now, logger, what: 'keys' });
  return async (header, token) => {
    const keys = await cache.get();
    try {
      return await keys(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
    }
    // The issuer may have published the key meanwhile.
    const renewed = await cache.renew();
    return await renewed(header, token);
  };
}
