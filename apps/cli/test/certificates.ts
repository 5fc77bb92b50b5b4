import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generate } from 'selfsigned';

export interface Issued {
  readonly cert: string;
  readonly key: string;
}

export interface CertificateOptions {
  readonly name?: string;
  readonly ip?: string;
  readonly from?: Date;
  readonly to?: Date;
  /** Default: self-signed. */
  readonly issuer?: Issued;
  readonly isAuthority?: boolean;
  readonly algorithm?: 'sha1' | 'sha256';
}

/** An elliptic-curve certificate, which takes milliseconds. */
export async function issue(options: CertificateOptions): Promise<Issued> {
  const { name = 'weighbridge', ip, from, to, issuer, isAuthority, algorithm = 'sha256' } = options;
  const { cert, private: key } = await generate([{ name: 'commonName', value: name }], {
    keyType: 'ec',
    algorithm,
    extensions: [
      { name: 'basicConstraints', cA: isAuthority ?? false },
      { name: 'subjectAltName', altNames: [ip ? { type: 7, ip } : { type: 2, value: name }] },
    ],
    ...(from && { notBeforeDate: from }),
    ...(to && { notAfterDate: to }),
    ...(issuer && { ca: { key: issuer.key, cert: issuer.cert } }),
  });
  return { cert, key };
}

/** Writes an app's three files and returns the settings that name them. */
export async function tlsFiles(folder: string, name: string, own: Issued, trusted: readonly string[]) {
  const path = (kind: string) => join(folder, `${name}.${kind}`);
  await writeFile(path('crt'), own.cert);
  await writeFile(path('key'), own.key);
  await writeFile(path('ca'), trusted.join('\n'));
  return {
    CONTROL_TLS_CERTIFICATE_FILE: path('crt'),
    CONTROL_TLS_KEY_FILE: path('key'),
    CONTROL_TLS_CA_FILE: path('ca'),
  };
}
