# The gateway: the program, and the few tools that commands of a profile without a sandbox of its own use. No init, no shell
# script at start, no program with the setuid bit, no package manager.
#
#   hermes-appliance images build --program PROGRAM     reads the pins from images/lock.json, records what it built
#   go build -o dist/image/opt/hermes/bin/hermes-appliance ./cmd/hermes-appliance && docker build .     works too (CGO_ENABLED=0)
#
# Two layers: Debian's files, which stay the same from release to release, and the program.

ARG BASE=docker.io/library/debian:13
FROM ${BASE} AS tools
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]

# Seconds since 1970: the time of every file this build writes, and of the image.
ARG SOURCE_DATE_EPOCH=1796000000
# A timestamp of snapshot.debian.org, or empty for what the mirrors have today.
ARG APT_SNAPSHOT=

COPY images/image/seal/ /

RUN mirror=http://deb.debian.org; date=; check=; \
    if [ -n "$APT_SNAPSHOT" ]; then mirror=http://snapshot.debian.org/archive; date=/$APT_SNAPSHOT; check=no; fi; \
    [ ! -f /etc/apt/sources.list ] || : >/etc/apt/sources.list; \
    { for s in "debian$date trixie trixie-updates" "debian-security$date trixie-security"; do \
        read -r where suites <<<"$s"; \
        printf 'Types: deb\nURIs: %s/%s\nSuites: %s\nComponents: main\n' "$mirror" "$where" "$suites"; \
        printf 'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n'; \
        [ -z "$check" ] || printf 'Check-Valid-Until: %s\n' "$check"; \
        printf '\n'; \
      done; } >/etc/apt/sources.list.d/debian.sources; \
    export DEBIAN_FRONTEND=noninteractive; \
    apt-get update -qq; \
    apt-get install -y -qq --no-install-recommends ca-certificates curl git jq openssh-client procps ripgrep tzdata; \
    groupadd --gid 10000 hermes; \
    useradd --uid 10000 --gid 10000 --home-dir /opt/data --no-create-home --shell /bin/bash hermes; \
    /usr/local/lib/hermes-sandbox/seal

# What the gateway's container has no use for. What remains of the package database says what is in the image, for its SBOM.
# git needs no more of Perl than Debian's own tools do, and no server; its name for itself need not be a second copy. At the end
# no program may miss a library.
RUN dpkg --purge --force-all apt libapt-pkg7.0 sqv libstdc++6 liberror-perl perl perl-modules-5.40 libperl5.40 libdb5.3t64; \
    mkdir -p /var/lib/apt/lists; \
    rm -rf /etc/apt /var/cache/apt /var/cache/debconf /usr/lib/apt /etc/cron.* /etc/init.d /etc/rc*.d /etc/systemd \
      /usr/lib/systemd /usr/lib/udev /usr/lib/*/gconv /usr/lib/openssh/ssh-keysign /usr/share/bash-completion /usr/share/bug \
      /usr/share/doc-base /usr/share/gitweb /usr/share/i18n /usr/share/info /usr/share/keyrings /usr/share/lintian /usr/share/locale \
      /usr/share/man /usr/share/menu /usr/share/perl /usr/share/pixmaps /boot /home /media /mnt /srv /root; \
    (cd /usr/lib/git-core; rm -f git-daemon git-http-backend git-http-fetch git-http-push git-imap-send git-sh-i18n--envsubst git-shell scalar); \
    rm -f /usr/bin/git-shell /usr/bin/scalar /usr/bin/perl5*; \
    ln -sf ../../bin/git /usr/lib/git-core/git; \
    find /usr/share/doc -mindepth 2 ! -name copyright ! -type d -delete; \
    find / -xdev \( -perm -4000 -o -perm -2000 \) -type f -exec chmod ug-s {} +; \
    missing=$(find /usr/bin /usr/sbin /usr/lib/git-core -type f -perm -0100 -exec ldd {} + 2>/dev/null | grep 'not found' || true); \
    [ -z "$missing" ] || { echo "$missing" >&2; exit 1; }; \
    install -d -m 700 /root; \
    install -d -m 755 /opt/hermes/bin /opt/hermes/docker /etc/hermes /home /mnt /srv; \
    install -d -m 700 -o 10000 -g 10000 /opt/data; \
    for link in /usr/local/bin/hermes-appliance /usr/local/bin/hermes; do ln -s /opt/hermes/bin/hermes-appliance "$link"; done; \
    for entry in /init /usr/bin/tini /opt/hermes/docker/entrypoint.sh /opt/hermes/docker/entrypoint-dispatch.sh /opt/hermes/docker/main-wrapper.sh; do \
      ln -s /opt/hermes/bin/hermes-appliance "$entry"; \
    done; \
    /usr/local/lib/hermes-sandbox/seal; \
    rm -rf /usr/local/lib/hermes-sandbox /var/lib/apt; \
    touch -h -d "@$SOURCE_DATE_EPOCH" /usr/local/lib /var/lib

FROM scratch
COPY --from=tools / /
COPY dist/image/ /

ENV PATH=/usr/local/bin:/usr/bin:/bin \
    LANG=C.UTF-8 \
    HOME=/opt/data \
    HERMES_HOME=/opt/data \
    HERMES_APPLIANCE_IMAGE=1
# A user without rights. As root it becomes PUID and PGID, or the owner of the volume, for good.
USER 10000:10000
WORKDIR /opt/data
VOLUME /opt/data
EXPOSE 8642 8644
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["/opt/hermes/bin/hermes-appliance", "container", "health"]
ENTRYPOINT ["/opt/hermes/bin/hermes-appliance", "container"]

ARG CREATED=2026-11-30T00:53:20Z
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="hermes-appliance" \
      org.opencontainers.image.source="https://github.com/hermes-appliance/hermes-appliance" \
      org.opencontainers.image.description="The gateway of a Hermes home" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.created="$CREATED" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
