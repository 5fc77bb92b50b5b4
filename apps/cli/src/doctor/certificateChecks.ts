import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type Finding, fail, ok, warn } from './finding.ts';

/** PEM files: an app's certificate, its key, and the authorities it trusts. */
export interface CertificateFiles {
  readonly certificateFile: string;
  readonly privateKeyFile: string;
  readonly caFile: string;
}

const DAY_MS = 86_400_000;
const SOON_DAYS = 14;
const RENEW =
  'Renew it. With cert-manager, `kubectl describe certificate` says why it was not renewed. Apps reload the files themselves.';

/** Checks that the files for TLS between the apps are readable, belong together and are valid now. */
export async function certificateChecks(files: CertificateFiles, now: () => Date): Promise<Finding[]> {
  const [certificates, key, authorities] = await Promise.all([
    readCertificates(files.certificateFile),
    readKey(files.privateKeyFile),
    readCertificates(files.caFile),
  ]);
  const unreadable = [certificates, key, authorities].filter((one) => 'problem' in one);
  if ('problem' in certificates || 'problem' in key || 'problem' in authorities) {
    return unreadable.map(({ problem }) =>
      fail(
        'certificate',
        problem,
        'Correct CONTROL_TLS_CERTIFICATE_FILE, CONTROL_TLS_KEY_FILE or CONTROL_TLS_CA_FILE.',
      ),
    );
  }
  const [own, ...intermediates] = certificates.read;
  return [
    own.checkPrivateKey(key.read)
      ? validity('certificate', own, now())
      : fail(
          'certificate',
          `${files.privateKeyFile} does not match ${files.certificateFile}`,
          'Put the certificate and the key of the same renewal into the secret.',
        ),
    chainFinding(own, intermediates, authorities.read),
    ...authorities.read.map((one) => validity('authority', one, now())),
  ];
}

/** Checks that a certificate is valid now and for the next days. */
export function validity(check: string, certificate: X509Certificate, now: Date): Finding {
  const from = new Date(certificate.validFrom);
  const to = new Date(certificate.validTo);
  const name = nameOf(certificate);
  if (now < from) {
    return fail(
      check,
      `${name} is not valid before ${day(from)}`,
      'Check the clocks of this machine and of the one that issued it.',
    );
  }
  if (now > to) return fail(check, `${name} expired on ${day(to)}`, RENEW);
  const days = Math.floor((to.getTime() - now.getTime()) / DAY_MS);
  if (days < SOON_DAYS) return warn(check, `${name} expires in ${days} days, on ${day(to)}`, RENEW);
  return ok(check, `${name} is valid until ${day(to)}`);
}

function chainFinding(
  own: X509Certificate,
  intermediates: readonly X509Certificate[],
  authorities: readonly X509Certificate[],
): Finding {
  let last = own;
  for (const next of intermediates) {
    if (!isIssuedBy(last, next)) {
      return fail(
        'chain',
        `${nameOf(last)} was not issued by ${nameOf(next)}, the next certificate in the file`,
        'Put the certificate itself first, and after each certificate the one that issued it.',
      );
    }
    last = next;
  }
  const trusted = authorities.find(
    (one) => one.fingerprint256 === last.fingerprint256 || isIssuedBy(last, one),
  );
  if (trusted) return ok('chain', `ends at ${nameOf(trusted)}`);
  return warn(
    'chain',
    `no authority in CONTROL_TLS_CA_FILE issued ${nameOf(own)}`,
    'That works only if the CA files of the other apps contain its issuer. Otherwise use certificates of one authority.',
  );
}

const isIssuedBy = (certificate: X509Certificate, issuer: X509Certificate): boolean =>
  certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);

const nameOf = ({ subject, subjectAltName }: X509Certificate): string =>
  `"${subject?.replaceAll('\n', ', ') || subjectAltName || 'without a name'}"`;

const day = (at: Date): string => at.toISOString().slice(0, 10);

type Read<T> = { readonly read: T } | { readonly problem: string };
type CertificateList = readonly [X509Certificate, ...X509Certificate[]];

async function readCertificates(file: string): Promise<Read<CertificateList>> {
  try {
    const text = await readFile(file, 'utf8');
    const [first, ...rest] = (
      text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
    ).map((block) => new X509Certificate(block));
    return first ? { read: [first, ...rest] } : { problem: `${file} contains no certificate` };
  } catch (error) {
    return { problem: `${file} can't be read: ${(error as Error).message}` };
  }
}

async function readKey(file: string): Promise<Read<ReturnType<typeof createPrivateKey>>> {
  try {
    return { read: createPrivateKey(await readFile(file, 'utf8')) };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Node's message about an invalid key doesn't help.
    return {
      problem:
        code === 'ENOENT' || code === 'EACCES'
          ? `${file} can't be read: ${code}`
          : `${file} contains no private key`,
    };
  }
}
