import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { checkServerIdentity, connect } from 'node:tls';
import { type CertificateFiles, validity } from './certificateChecks.ts';
import { type Finding, fail, ok, why } from './finding.ts';

export interface ControlLine {
  readonly address: string;
  readonly tls: CertificateFiles | undefined;
  /** Asks the control plane as a data plane would; rejects with why it failed. */
  readonly ask: () => Promise<void>;
}

const TIMEOUT_MS = 5_000;

/** Whether a data plane with these settings would find its control plane, be believed by it, and believe it. */
export async function controlLineChecks(
  { address, tls, ask }: ControlLine,
  now: () => Date,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  let noTls: unknown;
  if (tls) {
    const shown = shownCertificate(address, tls, now).catch((error: unknown) => {
      noTls = error;
      return [];
    });
    findings.push(...(await shown));
  }
  try {
    await ask();
    findings.push(ok('control plane', `${address} answers a data plane with these settings`));
  } catch (error) {
    // What TLS says, such as of a weak certificate, gRPC does not.
    const reason = why(noTls ?? error);
    findings.push(fail('control plane', `${address}: ${reason}`, adviceOn(error, tls !== undefined)));
  }
  return findings;
}

function adviceOn(error: unknown, hasTls: boolean): string {
  const { code } = error as { readonly code?: unknown };
  // gRPC's UNAUTHENTICATED and PERMISSION_DENIED.
  if (code === 16 || code === 7) return 'CONTROL_PLANE_TOKEN must be the one that the control plane has.';
  const tls = hasTls
    ? 'whether it serves TLS and believes the authority of CONTROL_TLS_CERTIFICATE_FILE'
    : 'whether it serves plain text (CONTROL_TLS_* is not set here)';
  return `Look whether CONTROL_PLANE_ADDRESS is right and the control plane runs, ${tls}, and whether a network policy is in the way.`;
}

/** The certificate that the control plane shows, believed or not. Rejects where nothing is shown. */
async function shownCertificate(
  address: string,
  { certificateFile, privateKeyFile, caFile }: CertificateFiles,
  now: () => Date,
): Promise<Finding[]> {
  const { hostname: bracketed, port } = new URL(`grpc://${address}`);
  const host = bracketed.replace(/^\[|\]$/g, '');
  const [cert, key, ca] = await Promise.all(
    [certificateFile, privateKeyFile, caFile].map((file) => readFile(file)),
  );
  const { shown, refusal } = await new Promise<{ shown: X509Certificate; refusal: string | undefined }>(
    (resolve, reject) => {
      const socket = connect({
        host,
        port: Number(port),
        cert,
        key,
        ca,
        ALPNProtocols: ['h2'],
        ...(isIP(host) ? {} : { servername: host }),
        // Looked at below: a certificate that is not believed is what there is to tell of.
        rejectUnauthorized: false,
        checkServerIdentity: () => undefined,
        timeout: TIMEOUT_MS,
      });
      socket.once('secureConnect', () => {
        const raw = socket.getPeerCertificate().raw;
        socket.destroy();
        if (!raw) return reject(new Error('it shows no certificate'));
        const { authorizationError } = socket;
        resolve({
          shown: new X509Certificate(raw),
          refusal: authorizationError && String(authorizationError),
        });
      });
      socket.once('timeout', () => socket.destroy(new Error(`no answer within ${TIMEOUT_MS} ms`)));
      socket.once('error', reject);
    },
  );
  const check = "control plane's certificate";
  const findings = [validity(check, shown, now())];
  if (refusal) {
    findings.push(
      fail(
        check,
        `it is not believed by CONTROL_TLS_CA_FILE (${refusal})`,
        'Put the authority that issued it into CONTROL_TLS_CA_FILE, or let the control plane show one of yours.',
      ),
    );
  }
  const wrongName = checkServerIdentity(host, shown.toLegacyObject());
  if (wrongName) {
    findings.push(
      fail(
        check,
        `it is not for ${host} (${shown.subjectAltName ?? 'it names nobody'})`,
        'Name the control plane in CONTROL_PLANE_ADDRESS as its certificate does, or have that issued for this name.',
      ),
    );
  }
  return findings;
}
