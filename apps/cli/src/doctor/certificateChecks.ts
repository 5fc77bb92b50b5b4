import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type Finding, fail, ok, warn } from './finding.ts';

/** Files in PEM: an app's certificate, its key, and the authorities that it believes. */
export interface CertificateFiles {
  readonly certificateFile: string;
  readonly privateKeyFile: string;
  readonly caFile: string;
}

const DAY_MS = 86_400_000;
const SOON_DAYS = 14;
const RENEW =
  'Renew it; with cert-manager: `kubectl describe certificate` says why it was not. Apps take new files up by themselves.';

/** Whether the files that the apps use between them are whole, belong together and are in force. */
export async function certificateChecks(files: CertificateFiles, now: () => Date): Promise<Finding[]> {
  const [certificates, key, authorities] = await Promise.all([
    readCertificates(files.certificateFile),
    readKey(files.privateKeyFile),
    readCertificates(files.caFile),
  ]);
  const unread = [certificates, key, authorities].filter((one) => 'problem' in one);
  if ('problem' in certificates || 'problem' in key || 'problem' in authorities) {
    return unread.map(({ problem }) =>
      fail(
        'certificate',
        problem,
        'Correct CONTROL_TLS_CERTIFICATE_FILE, CONTROL_TLS_KEY_FILE, CONTROL_TLS_CA_FILE.',
      ),
    );
  }
  const [own, ...intermediates] = certificates.read;
  return [
    own.checkPrivateKey(key.read)
      ? validity('certificate', own, now())
      : fail(
          'certificate',
          `${files.privateKeyFile} is not the key of ${files.certificateFile}`,
          'Put both of one renewal into the secret.',
        ),
    chainFinding(own, intermediates, authorities.read),
    ...authorities.read.map((one) => validity('authority', one, now())),
  ];
}

/** Whether a certificate is in force, and for how long. */
export function validity(check: string, certificate: X509Certificate, now: Date): Finding {
  const from = new Date(certificate.validFrom);
  const to = new Date(certificate.validTo);
  const name = nameOf(certificate);
  if (now < from) {
    return fail(
      check,
      `${name} is in force only from ${day(from)} on`,
      'Look at the clocks, here and where it was made.',
    );
  }
  if (now > to) return fail(check, `${name} ended on ${day(to)}`, RENEW);
  const days = Math.floor((to.getTime() - now.getTime()) / DAY_MS);
  if (days < SOON_DAYS) return warn(check, `${name} ends in ${days} days, on ${day(to)}`, RENEW);
  return ok(check, `${name} is in force until ${day(to)}`);
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
        `${nameOf(last)} is not issued by ${nameOf(next)}, which follows it in the file`,
        'The file begins with the certificate itself, and each is followed by the one that issued it.',
      );
    }
    last = next;
  }
  const believed = authorities.find(
    (one) => one.fingerprint256 === last.fingerprint256 || isIssuedBy(last, one),
  );
  if (believed) return ok('chain', `leads to ${nameOf(believed)}`);
  return warn(
    'chain',
    `${nameOf(own)} is issued by nobody in CONTROL_TLS_CA_FILE`,
    'That is fine only where the other apps believe it by another file; else take certificates of one authority.',
  );
}

const isIssuedBy = (certificate: X509Certificate, issuer: X509Certificate): boolean =>
  certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);

const nameOf = ({ subject, subjectAltName }: X509Certificate): string =>
  `"${subject?.replaceAll('\n', ', ') || subjectAltName || 'without a name'}"`;

const day = (at: Date): string => at.toISOString().slice(0, 10);

type Read<T> = { readonly read: T } | { readonly problem: string };
type Several = readonly [X509Certificate, ...X509Certificate[]];

async function readCertificates(file: string): Promise<Read<Several>> {
  try {
    const text = await readFile(file, 'utf8');
    const [first, ...rest] = (
      text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
    ).map((block) => new X509Certificate(block));
    return first ? { read: [first, ...rest] } : { problem: `${file} holds no certificate` };
  } catch (error) {
    return { problem: `${file} can't be read: ${(error as Error).message}` };
  }
}

async function readKey(file: string): Promise<Read<ReturnType<typeof createPrivateKey>>> {
  try {
    return { read: createPrivateKey(await readFile(file, 'utf8')) };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // What Node says of a key that it can't read helps nobody.
    return {
      problem:
        code === 'ENOENT' || code === 'EACCES'
          ? `${file} can't be read: ${code}`
          : `${file} holds no private key`,
    };
  }
}
