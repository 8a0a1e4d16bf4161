# SPDX-License-Identifier: MIT
class HermesAppliance < Formula
  desc "Run a Hermes home as an appliance"
  homepage "https://github.com/hermes-appliance/hermes-appliance"
  version "@VERSION@"
  license "MIT"

  on_macos do
    on_arm do
      url "@BASE@/hermes-appliance_@VERSION@_darwin_arm64"
      sha256 "@darwin_arm64@"
    end
    on_intel do
      url "@BASE@/hermes-appliance_@VERSION@_darwin_amd64"
      sha256 "@darwin_amd64@"
    end
  end
  on_linux do
    on_arm do
      url "@BASE@/hermes-appliance_@VERSION@_linux_arm64"
      sha256 "@linux_arm64@"
    end
    on_intel do
      url "@BASE@/hermes-appliance_@VERSION@_linux_amd64"
      sha256 "@linux_amd64@"
    end
  end

  def install
    program = Dir["hermes-appliance_*"].first
    chmod 0755, program
    bin.install program => "hermes-appliance"
    generate_completions_from_executable(bin/"hermes-appliance", "completion", shells: [:bash, :zsh, :fish])
  end

  service do
    run [opt_bin/"hermes-appliance", "up"]
    keep_alive true
    log_path var/"log/hermes-appliance.log"
    error_log_path var/"log/hermes-appliance.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/hermes-appliance version")
  end
end
