// The software bill of materials and the third-party notices: they list every package of an installation as the lock file has it, and
// are part of the package.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

interface LockedPackage {
  readonly version: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly dev?: boolean;
}

interface Component {
  readonly 'bom-ref': string;
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly hashes: readonly { readonly alg: string; readonly content: string }[];
  readonly licenses: readonly { readonly license?: { readonly id: string }; readonly expression?: string }[];
}

interface Sbom {
  readonly bomFormat: string;
  readonly specVersion: string;
  readonly metadata: { readonly component: Omit<Component, 'hashes'> };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

const textOf = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');
const { packages } = JSON.parse(textOf('package-lock.json')) as { packages: Readonly<Record<string, LockedPackage>> };
const sbom = JSON.parse(textOf('sbom.cdx.json')) as Sbom;
const installed = Object.entries(packages).filter(([path, { dev }]) => path !== '' && !dev);
const nameOf = (path: string) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);

test('the SBOM has every production dependency with its version, licence and integrity hash', () => {
  assert.equal(sbom.bomFormat, 'CycloneDX');
  assert.ok(installed.length > 50);
  for (const [path, { version, license, integrity = '' }] of installed) {
    const component = sbom.components.find(
      (candidate) => candidate.name === nameOf(path) && candidate.version === version,
    );
    assert.ok(component, `${path} ${version}`);
    const [{ license: single, expression } = {}] = component.licenses;
    assert.equal(single?.id ?? expression, license, path);
    const [hash] = component.hashes;
    assert.equal(`sha512-${Buffer.from(hash?.content ?? '', 'hex').toString('base64')}`, integrity, path);
    assert.equal(hash?.alg, 'SHA-512');
    assert.equal(component.purl, `pkg:npm/${nameOf(path).replace('@', '%40')}@${version}`);
  }
});

test('the SBOM lists nothing else, and the dependencies of each component lead to components', () => {
  const versions = new Set(installed.map(([path, { version }]) => `${nameOf(path)} ${version}`));
  assert.equal(sbom.components.length, versions.size);
  for (const { name, version } of sbom.components) assert.ok(versions.has(`${name} ${version}`), name);
  const refs = new Set(sbom.components.map((component) => component['bom-ref']));
  assert.equal(refs.size, sbom.components.length);
  for (const { ref, dependsOn } of sbom.dependencies) {
    assert.ok(refs.has(ref) || ref === sbom.metadata.component['bom-ref'], ref);
    for (const dependency of dependsOn) assert.ok(refs.has(dependency), `${ref} depends on ${dependency}`);
  }
  const reached = new Set(sbom.dependencies.flatMap(({ dependsOn }) => dependsOn));
  assert.deepEqual(
    [...refs].filter((ref) => !reached.has(ref)),
    [],
  );
});

test('the SBOM is about this release of the software', () => {
  const { name, version, license } = JSON.parse(textOf('package.json'));
  const { component } = sbom.metadata;
  assert.deepEqual([component.name, component.version, component.licenses[0]?.license?.id], [name, version, license]);
});

test('the third-party notices name every production dependency, and both documents are part of the package', () => {
  const notices = textOf('THIRD_PARTY_NOTICES.txt').split('\n');
  for (const [path, { version, license }] of installed)
    assert.ok(notices.includes(`${nameOf(path)} ${version} (${license})`), path);
  const { files } = JSON.parse(textOf('package.json')) as { files: readonly string[] };
  for (const name of ['sbom.cdx.json', 'THIRD_PARTY_NOTICES.txt']) assert.ok(files.includes(name), name);
});
